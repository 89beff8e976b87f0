#include <cstdint>
#include <string>

#include "tinker/check.h"
#include "wire/base64.h"
#include "wire/json_reader.h"
#include "wire/json_writer.h"
#include "wire/utf8.h"

// Base64 and JSON strings give back what they were given; what our writer accepts, a parser
// accepts.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::wire;
  const std::string text(reinterpret_cast<const char*>(data), size);
  TINKER_CHECK(from_base64(to_base64(text)) == text);
  if (const auto bytes = from_base64(text)) TINKER_CHECK(to_base64(*bytes) == text);

  JsonWriter writer(NonFinite::refuse);
  writer.string(text);
  TINKER_CHECK(is_utf8(text) == !writer.error().has_value());
  if (!writer.error()) {
    const auto document = JsonDocument::parse(std::move(writer).take());
    TINKER_CHECK(document.ok() && document->root().string() == text);
  }
  return 0;
}
