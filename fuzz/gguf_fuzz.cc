#include <cstdint>
#include <string_view>

#include "formats/gguf.h"
#include "tinker/check.h"
#include "tinker/tokenizer.h"

// A GGUF file: its tensors lie inside it, and its vocabulary is refused or works.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto gguf = tinker::formats::Gguf::parse(file);
  if (!gguf.ok()) return 0;
  for (const auto& tensor : gguf->tensors()) {
    TINKER_CHECK(tensor.data.empty() ||
                 (tensor.data.data() >= file.data() &&
                  tensor.data.data() + tensor.data.size() <= file.data() + file.size()));
  }
  const auto tokenizer = tinker::Tokenizer::from_gguf(file);
  if (tokenizer.ok()) (void)tokenizer->decode(tokenizer->encode("It's a test: 12\xC3\xA9\xFF"));
  return 0;
}
