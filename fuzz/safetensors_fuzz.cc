#include <cstdint>
#include <string_view>

#include "formats/safetensors.h"
#include "tinker/check.h"

// A safetensors file: its tensors lie inside it, and are found by their names.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto content = tinker::formats::Safetensors::parse(file);
  if (!content.ok()) return 0;
  std::size_t total = 0;
  for (const auto& tensor : content->tensors()) {
    TINKER_CHECK(content->find(tensor.name) == &tensor);
    TINKER_CHECK(tensor.data.data() >= file.data() &&
                 tensor.data.data() + tensor.data.size() <= file.data() + file.size());
    total += tensor.data.size();
  }
  TINKER_CHECK(total < file.size());
  return 0;
}
