#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/ggml_blocks.h"

// A type and blocks of it: any bits have values.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* const type = tinker::formats::find_ggml_type(std::uint32_t{data[0]});
  if (type == nullptr || type->dequantise == nullptr) return 0;
  const std::size_t blocks = (size - 1) / type->block_bytes;
  std::vector<float> values(blocks * type->block_values);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), blocks * type->block_bytes);
  type->dequantise(bytes, values);
  return 0;
}
