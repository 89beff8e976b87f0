#pragma once

#include <cstddef>
#include <filesystem>

namespace tinker::engine {

/// Bytes that this program could still take without swapping, or without going beyond what its
/// container or any control group around it may have; a large number where the machine does not
/// say. `root` is where the machine's files are.
std::size_t available_memory(const std::filesystem::path& root = "/");

}  // namespace tinker::engine
