#pragma once

#include <string>
#include <string_view>

#include "tinker/result.h"
#include "wire/json.h"

namespace tinker::testing {

/// The document as we would send it ourselves: read, then written again.
template <typename T>
Result<std::string> echo(std::string_view text, wire::DecodeOptions options = {}) {
  TINKER_TRY(const T value, wire::decode_json<T>(text, options));
  return wire::encode_json(value);
}

}  // namespace tinker::testing
