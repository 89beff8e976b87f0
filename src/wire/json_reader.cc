#include "wire/json_reader.h"

#include <bit>
#include <cmath>
#include <utility>

#include <simdjson.h>

#include "base/strings.h"
#include "wire/json_scan.h"

namespace tinker::wire {

using simdjson::dom::element;
using simdjson::dom::element_type;

struct JsonView::Access {
  static_assert(sizeof(element) == sizeof(JsonView) && std::is_trivially_copyable_v<element>);

  static element unwrap(JsonView view) { return std::bit_cast<element>(view); }
  static JsonView wrap(element value) { return std::bit_cast<JsonView>(value); }
  static simdjson::dom::array array(JsonView view) {
    return unwrap(view).get_array().value_unsafe();
  }
  static simdjson::dom::object object(JsonView view) {
    return unwrap(view).get_object().value_unsafe();
  }
};

JsonView::Kind JsonView::kind() const noexcept {
  switch (Access::unwrap(*this).type()) {
    case element_type::ARRAY: return Kind::array;
    case element_type::OBJECT: return Kind::object;
    case element_type::INT64: return Kind::integer;
    case element_type::UINT64: return Kind::large_integer;
    case element_type::DOUBLE: return Kind::number;
    case element_type::STRING: return Kind::string;
    case element_type::BOOL: return Kind::boolean;
    case element_type::NULL_VALUE: return Kind::null;
  }
  return Kind::null;
}

std::string_view JsonView::kind_name() const noexcept {
  switch (kind()) {
    case Kind::null: return "null";
    case Kind::boolean: return boolean() ? "true" : "false";
    case Kind::integer:
    case Kind::large_integer: return "an integer";
    case Kind::number: return "a number";
    case Kind::string: return "a string";
    case Kind::array: return "an array";
    case Kind::object: return "an object";
  }
  return "nothing";
}

bool JsonView::boolean() const noexcept {
  return Access::unwrap(*this).get_bool().value_unsafe();
}

std::int64_t JsonView::integer() const noexcept {
  return Access::unwrap(*this).get_int64().value_unsafe();
}

std::uint64_t JsonView::large_integer() const noexcept {
  return Access::unwrap(*this).get_uint64().value_unsafe();
}

double JsonView::number() const noexcept {
  return Access::unwrap(*this).get_double().value_unsafe();
}

std::string_view JsonView::string() const noexcept {
  return Access::unwrap(*this).get_string().value_unsafe();
}

std::optional<std::int64_t> JsonView::as_integer() const noexcept {
  if (kind() == Kind::integer) return integer();
  if (kind() != Kind::number) return std::nullopt;
  const double value = number();
  if (!(std::abs(value) < 0x1.0p63) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<JsonView> JsonView::member(std::string_view name) const {
  std::optional<JsonView> found;
  for_each_member([&](std::string_view key, JsonView value) {
    if (key == name) found = value;
    return true;
  });
  return found;
}

bool JsonView::visit_elements(ElementVisitor visit, void* context) const {
  for (const element value : Access::array(*this)) {
    if (!visit(context, Access::wrap(value))) return false;
  }
  return true;
}

bool JsonView::visit_members(MemberVisitor visit, void* context) const {
  for (const auto [name, value] : Access::object(*this)) {
    if (!visit(context, name, Access::wrap(value))) return false;
  }
  return true;
}

namespace {

/// The first double that rounds to an infinite float.
constexpr double kBeyondFloat = 0x1.ffffffp127;

template <typename T, typename Convert>
std::optional<std::size_t> append_all(const simdjson::dom::array& array,
                                      std::vector<T>& out,
                                      Convert convert) {
  out.reserve(out.size() + array.size());
  std::size_t index = 0;
  for (const element value : array) {
    const std::optional<T> converted = convert(value);
    if (!converted) return index;
    out.push_back(*converted);
    ++index;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> JsonView::append_to(std::vector<std::int64_t>& out) const {
  return append_all(
      Access::array(*this), out, [](element value) { return Access::wrap(value).as_integer(); });
}

std::optional<std::size_t> JsonView::append_to(std::vector<std::int32_t>& out) const {
  return append_all(Access::array(*this), out, [](element value) {
    const auto wide = Access::wrap(value).as_integer();
    return wide && std::in_range<std::int32_t>(*wide)
               ? std::optional(static_cast<std::int32_t>(*wide))
               : std::nullopt;
  });
}

std::optional<std::size_t> JsonView::append_to(std::vector<float>& out) const {
  return append_all(Access::array(*this), out, [](element value) {
    double wide = 0.0;
    if (!value.is_number() || value.get_double().get(wide) != simdjson::SUCCESS ||
        std::abs(wide) >= kBeyondFloat) {
      return std::optional<float>();
    }
    return std::optional(static_cast<float>(wide));
  });
}

struct JsonDocument::Parser {
  simdjson::dom::parser parser;
  /// The last one used on this thread. Most documents are small, and the buffers of a new parser
  /// cost more than they do.
  static thread_local std::unique_ptr<Parser> kept;
};

thread_local std::unique_ptr<JsonDocument::Parser> JsonDocument::Parser::kept;

void JsonDocument::Recycle::operator()(Parser* parser) const noexcept {
  constexpr std::size_t kMaxKeptBytes = 16384;
  std::unique_ptr<Parser> owned(parser);
  if (owned->parser.capacity() <= kMaxKeptBytes) Parser::kept = std::move(owned);
}

JsonDocument::ParserPtr JsonDocument::take_parser() {
  auto kept = std::move(Parser::kept);
  return ParserPtr(kept ? kept.release() : new Parser());
}

JsonDocument::JsonDocument(ParserPtr parser, JsonView root)
    : parser_(std::move(parser)), root_(root) {}

namespace {

/// What the parser says in its own words, for people.
std::string_view reason(simdjson::error_code error) {
  switch (error) {
    case simdjson::EMPTY: return "nothing";
    case simdjson::UTF8_ERROR: return "text that is not UTF-8";
    case simdjson::STRING_ERROR: return "a malformed string";
    case simdjson::DEPTH_ERROR: return "nesting deeper than 1024";
    case simdjson::MEMALLOC:
    case simdjson::CAPACITY: return "more than fits into memory";
    default: return "malformed JSON";
  }
}

}  // namespace

Result<JsonDocument> JsonDocument::parse(std::string_view text) {
  auto state = take_parser();
  element root;
  auto error = state->parser.parse(text.data(), text.size()).get(root);
  if (error == simdjson::SUCCESS) {
    return JsonDocument(std::move(state), JsonView::Access::wrap(root));
  }
  std::string message = base::concat("$: expected one JSON document, found ", reason(error));
  if (error != simdjson::EMPTY && error != simdjson::UTF8_ERROR) {
    JsonDiagnosis diagnosis = diagnose_json(text);
    if (diagnosis.problem) message = *std::move(diagnosis.problem);
    if (diagnosis.repaired) {
      error = state->parser.parse(*diagnosis.repaired).get(root);
      if (error == simdjson::SUCCESS) {
        return JsonDocument(std::move(state), JsonView::Access::wrap(root));
      }
    }
  }
  return Error{.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

}  // namespace tinker::wire
