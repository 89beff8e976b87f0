#pragma once

#include <string_view>

namespace tinker::detail {

/// Writes the broken promise to standard error and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace tinker::detail

/// Aborts when a promise between pieces of code is broken. Never for input: that gets an `Error`.
#define TINKER_CHECK(condition) \
  ((condition) ? void(0) : ::tinker::detail::check_failed(#condition, __FILE__, __LINE__))
