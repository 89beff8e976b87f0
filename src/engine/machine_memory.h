#pragma once

#include <cstddef>

namespace tinker::engine {

/// Bytes that programs on this machine could still take without swapping; a large number where it
/// does not say.
std::size_t available_memory();

}  // namespace tinker::engine
