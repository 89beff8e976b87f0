#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/content_coding.h"

// The coding on the first line, then the body. What comes out is never over the limit; what zstd
// packs, it unpacks.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::http;
  constexpr std::size_t kLimit = 2000;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto coding = text.substr(0, text.find('\n'));
  const std::string body(text.substr(std::min(coding.size() + 1, text.size())));

  const auto decoded = decode_content(coding, body, kLimit);
  if (decoded) TINKER_CHECK(decoded->size() <= kLimit);

  const auto packed = zstd_compress(body, 1);
  TINKER_CHECK(packed.ok());
  const auto unpacked = decode_content("zstd", *packed, body.size());
  TINKER_CHECK(unpacked.ok() && *unpacked == body);
  return 0;
}
