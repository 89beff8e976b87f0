#pragma once

#include <string>
#include <string_view>

#include "wire/json.h"

namespace tinker::wire {

namespace detail {
Result<std::string> query_from_json(std::string_view json);
Result<std::string> json_from_query(std::string_view query, const Schema& schema);
}  // namespace detail

/// Writes a request as a query string, without the "?" (PROTOCOL 4.1):
/// "limit=20&access_scope=owned". Members that are null or empty are left out.
template <typename T>
Result<std::string> encode_query(const T& value) {
  TINKER_TRY(const std::string json, encode_json(value));
  return detail::query_from_json(json);
}

/// Reads a query string, as a server receives it.
template <typename T>
Result<T> decode_query(std::string_view query, DecodeOptions options = {}) {
  TINKER_TRY(const std::string json, detail::json_from_query(query, schema_of<T>()));
  return decode_json<T>(json, options);
}

}  // namespace tinker::wire
