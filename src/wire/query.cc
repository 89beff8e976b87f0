#include "wire/query.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/strings.h"

namespace tinker::wire::detail {
namespace {

// The members of a query are few and flat, so both directions go through JSON: the schemas then
// serve here, too.

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else if (c == ' ') {
      out += '+';
    } else {
      out += '%';
      out += kHex[static_cast<unsigned char>(c) >> 4U];
      out += kHex[static_cast<unsigned char>(c) & 0xfU];
    }
  }
}

/// 0 to 15, or -1 for what is no hexadecimal digit.
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = i + 1 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return Error::invalid_argument("$: expected two hexadecimal digits after every '%'");
      }
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

/// How a scalar stands in a query; empty for null.
std::string text_of(JsonView value) {
  switch (value.kind()) {
    case JsonView::Kind::string: return std::string(value.string());
    case JsonView::Kind::boolean: return value.boolean() ? "true" : "false";
    case JsonView::Kind::integer: return base::concat(value.integer());
    case JsonView::Kind::large_integer: return base::concat(value.large_integer());
    case JsonView::Kind::number: return base::concat(value.number());
    default: return {};
  }
}

}  // namespace

Result<std::string> query_from_json(std::string_view json) {
  TINKER_TRY(const auto document, JsonDocument::parse(json));
  std::string out;
  document.root().for_each_member([&](std::string_view name, JsonView value) {
    const std::string text = text_of(value);
    if (text.empty()) return true;
    if (!out.empty()) out += '&';
    append_escaped(out, name);
    out += '=';
    append_escaped(out, text);
    return true;
  });
  return out;
}

Result<std::string> json_from_query(std::string_view query, const Schema& schema) {
  JsonWriter writer(NonFinite::refuse);
  writer.begin_object();
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::string_view raw_name = pair.substr(0, pair.find('='));
    TINKER_TRY(const std::string name, unescaped(raw_name));
    TINKER_TRY(const std::string value,
               unescaped(pair.substr(std::min(pair.size(), raw_name.size() + 1))));
    writer.escaped_key(name);
    const auto field = std::ranges::find(schema.fields, name, &Field::name);
    std::int64_t integer = 0;
    const bool wants_integer =
        field != schema.fields.end() && field->expected == JsonCodec<std::int64_t>::kExpected;
    const auto end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, integer);
    if (wants_integer && read.ec == std::errc() && read.ptr == end) {
      writer.integer(integer);
    } else {
      writer.string(value);
    }
  }
  writer.end_object();
  return finish(std::move(writer));
}

}  // namespace tinker::wire::detail
