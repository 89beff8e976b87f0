#include <cstdint>
#include <string_view>

#include "tinker/types/tinker_path.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto path = tinker::TinkerPath::parse(text);
  if (path) TINKER_CHECK(path->to_string() == text);
  return 0;
}
