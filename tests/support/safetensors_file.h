#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tinker::testing {

/// Any header and any data, also broken ones.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  const std::uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof(size));
  return out.append(header).append(data);
}

}  // namespace tinker::testing
