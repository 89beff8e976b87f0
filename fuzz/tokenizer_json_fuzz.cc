#include <cstdint>
#include <string_view>

#include "tinker/check.h"
#include "tinker/tokenizer.h"

// A tokenizer.json: refused, or good for any text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = tinker::Tokenizer::from_json(json);
  if (!tokenizer.ok()) return 0;
  const auto encoding = tokenizer->encode_with_offsets("It's a test: 1234  \xC3\xA9\xFF <s>");
  TINKER_CHECK(encoding.ids.size() == encoding.offsets.size());
  (void)tokenizer->decode(encoding.ids);
  return 0;
}
