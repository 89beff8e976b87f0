#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tinker/tokenizer.h"

// A pattern up to the first zero byte, then the lines of a file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto end = std::min(text.find('\0'), text.size());
  const auto ranks = text.substr(std::min(end + 1, text.size()));
  const auto tokenizer =
      tinker::Tokenizer::from_tiktoken(ranks, {.pattern = std::string(text.substr(0, end))});
  if (tokenizer.ok()) (void)tokenizer->decode(tokenizer->encode(text));
  return 0;
}
