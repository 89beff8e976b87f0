#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tinker/check.h"
#include "tinker/tokenizer.h"

namespace {

tinker::Tokenizer load(const char* name) {
  return tinker::Tokenizer::load(std::string(TOKENIZER_GOLDEN "/") + name).value();
}

}  // namespace

// Any bytes, with a vocabulary that has a token for each byte: they come back as they were.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array kTokenizers = {
      load("gpt2.json"), load("deepseek.json"), load("llama2.json")};
  if (size == 0) return 0;
  const auto& tokenizer = kTokenizers[data[0] % kTokenizers.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto [ids, offsets] = tokenizer.encode_with_offsets(text, {.parse_special = true});
  std::string bytes;
  auto stream = tokenizer.decode_stream();
  std::string streamed;
  for (const auto id : ids) {
    bytes += tokenizer.id_to_bytes(id).value();
    streamed += stream.push(id);
  }
  streamed += stream.finish();
  TINKER_CHECK(streamed == tokenizer.decode(ids));
  if (data[0] % kTokenizers.size() == 0) TINKER_CHECK(bytes == text);
  for (const auto& [begin, end] : offsets) TINKER_CHECK(begin <= end && end <= text.size());
  return 0;
}
