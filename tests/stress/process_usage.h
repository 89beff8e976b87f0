#pragma once

#include <cstddef>

namespace tinker::stress {

/// How many file descriptors this process has open.
std::size_t open_descriptors();
/// How many bytes of this process are in memory, after giving back what the allocator holds free.
std::size_t resident_bytes();
/// Raises the limit of open descriptors as far as it goes; what it is then.
std::size_t raise_descriptor_limit();

/// Sanitizers keep freed memory and metadata of their own: numbers of bytes say nothing there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// The number in an environment variable, or `otherwise`.
std::size_t number_from_environment(const char* name, std::size_t otherwise);

}  // namespace tinker::stress
