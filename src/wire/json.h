#pragma once

#include <string>
#include <string_view>

#include "tinker/result.h"
#include "wire/decoder.h"
#include "wire/special_codecs.h"

namespace tinker::wire {

namespace detail {
using ReadRoot = bool (*)(JsonView value, void* out, Decoder& decoder);
Result<void> decode_document(std::string_view text, void* out, ReadRoot read, Decoder decoder);
Result<std::string> finish(JsonWriter writer);
template <typename T>
concept Described = requires { JsonCodec<T>::kSchemaDriven; };

/// Whether `T` is read as part of a request or of an answer.
template <typename T>
Direction direction_of() {
  if constexpr (Described<T> || std::is_same_v<T, OptimStepRequest>) {
    return schema_of<T>().direction();
  } else {
    return Direction::request;
  }
}
}  // namespace detail

/// Reads one JSON document. The error begins with the path of the member at fault:
/// "prompt.chunks[0].tokens[2]: expected an integer of 32 bits".
template <typename T>
Result<T> decode_json(std::string_view text, DecodeOptions options = {}) {
  T out;
  const auto read = [](JsonView value, void* object, Decoder& decoder) {
    return JsonCodec<T>::read(value, *static_cast<T*>(object), decoder);
  };
  TINKER_TRY(
      detail::decode_document(text, &out, read, Decoder(detail::direction_of<T>(), options)));
  return out;
}

/// Writes one compact JSON document, exactly as it goes on the wire. An error for what JSON cannot
/// carry: NaN in a request, text that is not UTF-8, a value out of its range.
template <typename T>
Result<std::string> encode_json(const T& value) {
  const bool is_request = detail::direction_of<T>() == Direction::request;
  JsonWriter writer(is_request ? NonFinite::refuse : NonFinite::as_strings);
  JsonCodec<T>::write(value, writer);
  return detail::finish(std::move(writer));
}

}  // namespace tinker::wire
