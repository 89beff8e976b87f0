#include <cstdint>
#include <string_view>

#include "tokenizer/kimi_reader.h"

// The configuration is read before it shows that there are no ranks.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tinker::tokenizer::read_kimi("", {reinterpret_cast<const char*>(data), size});
  return 0;
}
