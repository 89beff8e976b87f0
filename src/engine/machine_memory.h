#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "tinker/result.h"

namespace tinker::engine {

/// Bytes that this program could still take without swapping, or without going beyond what its
/// container or any control group around it may have; a large number where the machine does not
/// say. `root` is where the machine's files are.
std::size_t available_memory(const std::filesystem::path& root = "/");

/// Bytes of the machine's memory that this program has now; 0 where the machine does not say.
std::size_t resident_memory(const std::filesystem::path& root = "/");

/// Fails with `invalid_argument` where `what` needs more bytes than `room`: memory that the machine
/// does not have would end the program, not the call.
Result<void> check_room(std::string_view what, std::size_t needed, std::size_t room);

}  // namespace tinker::engine
