#pragma once

#include <chrono>
#include <string>

#include "base/strings.h"

namespace tinker::base {

/// A duration for people: "0.4 s", "12 s". Tenths below ten seconds, whole seconds from there.
inline std::string seconds_text(std::chrono::nanoseconds duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  if (tenths >= 100 || tenths % 10 == 0) return concat(tenths / 10, " s");
  return concat(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace tinker::base
