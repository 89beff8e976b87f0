#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/strings.h"

namespace tinker::formats {

/// "[49152,576]"
inline std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string out = "[";
  for (const auto extent : shape) out += base::concat(extent, ",");
  if (!shape.empty()) out.pop_back();
  return out + "]";
}

}  // namespace tinker::formats
