#include <cstdint>
#include <string>

#include "tinker/types/model_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto shape = tinker::tensor_container_shape(bytes);
  if (shape) TINKER_CHECK(shape->size() < size);  // every dimension takes a byte
  tinker::ModelInput input;
  const auto length = input.append(tinker::DmelChunk{.dmel = bytes}).length();
  if (length) TINKER_CHECK(shape.ok() && std::cmp_equal(*length, shape->front()));
  return 0;
}
