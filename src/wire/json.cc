#include "wire/json.h"

#include <utility>

namespace tinker::wire::detail {

Result<void> decode_document(std::string_view text, void* out, ReadRoot read, Decoder decoder) {
  const auto document = JsonDocument::parse(text);
  if (!document) {
    Error error = document.error();
    if (decoder.is_response()) error.code = ErrorCode::invalid_response;
    return error;
  }
  if (!read(document->root(), out, decoder)) return std::move(decoder).take_error();
  return {};
}

Result<std::string> finish(JsonWriter writer) {
  if (const auto& error = writer.error()) return *error;
  return std::move(writer).take();
}

}  // namespace tinker::wire::detail
