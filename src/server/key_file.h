#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "tinker/local_server.h"
#include "tinker/result.h"

/// The keys of those who may use a server.
namespace tinker::server {

/// Fails with `invalid_argument`, without a word of either, for an owner that cannot be part of a
/// URN, and for a key that the official client would refuse (R3.1), that no header can carry, or
/// that is short enough to be guessed.
Result<void> check_key(const ServedKey& key);

/// One key a line: "OWNER KEY"; '#' begins a comment, at the beginning of a line or after a space.
/// Fails with the number of the line, never with a key; also where there is no key at all, which
/// would let everybody in.
Result<std::vector<ServedKey>> parse_key_file(std::string_view text);

/// The same of a file; refuses one that others than its owner can read or write.
Result<std::vector<ServedKey>> read_key_file(const std::filesystem::path& file);

}  // namespace tinker::server
