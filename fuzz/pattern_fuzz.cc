#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tinker/check.h"
#include "tokenizer/pattern.h"

using tinker::tokenizer::Dialect;
using tinker::tokenizer::Pattern;

// A dialect, a pattern up to the first zero byte, then a text to be searched.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto end = std::min(text.find('\0'), text.size());
  const auto pattern =
      Pattern::compile(text.substr(0, end), data[0] % 2 == 0 ? Dialect::oniguruma : Dialect::rust);
  if (!pattern.ok()) return 0;
  // Patterns that go over a text again and again exist; they need not be long to be seen.
  const auto searched = text.substr(std::min(end + 1, text.size())).substr(0, 24);
  Pattern::Scratch scratch;
  std::size_t at = 0;
  while (const auto found = pattern->find(searched, at, scratch)) {
    TINKER_CHECK(found->begin >= at && found->end > found->begin && found->end <= searched.size());
    at = found->end;
  }
  return 0;
}
