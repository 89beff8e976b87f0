#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "tinker/download.h"
#include "tinker/http.h"
#include "tinker/result.h"

namespace tinker::client {

/// What an object should hash to.
struct ExpectedChecksum {
  Checksum kind = Checksum::none;
  std::string bytes = {};
};

std::string_view to_string(Checksum kind) noexcept;

/// The strongest checksum of the whole object that came with an answer, which may bring all of it
/// (`is_whole`) or a part: Repr-Digest, Digest, x-amz-checksum-*, x-goog-hash, Content-MD5. An ETag
/// is none.
ExpectedChecksum find_checksum(const http::Headers& headers, bool is_whole);

/// Reads a file and compares. Blocks. Fails with `conflict` when it differs, with `cancelled` once
/// `stop` is set.
Result<void> verify_checksum(const std::string& path,
                             const ExpectedChecksum& expected,
                             const std::atomic<bool>& stop);

}  // namespace tinker::client
