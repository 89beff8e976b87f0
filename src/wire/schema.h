#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "wire/decoder.h"
#include "wire/json_reader.h"
#include "wire/json_writer.h"

namespace tinker::wire {

/// When a member must be there.
enum class Presence : std::uint8_t {
  required,
  required_nullable,  ///< In the official model required, though the official client omits its
                      ///< null.
  defaulted,          ///< Absent means the struct's own default, or null.
};

/// What happens to members a schema does not list.
enum class Members : std::uint8_t {
  closed,   ///< Requests: refused, or reported to a lenient server.
  exact,    ///< Requests that set the arithmetic: always refused.
  watched,  ///< As `exact` for a lenient server; passed over otherwise, as the official model does.
  open,     ///< Answers and telemetry: passed over.
};

/// One member of an object, the same description for both directions.
struct Field {
  std::string_view name;
  Presence presence = Presence::required;
  std::string_view expected;
  bool (*read)(JsonView value, void* object, Decoder& decoder) = nullptr;
  void (*write)(const void* object, JsonWriter& writer) = nullptr;
  bool (*is_omitted)(const void* object) = nullptr;  ///< Null: always written.
  void (*missing)(void* object) = nullptr;           ///< Called when the member is not there.
};

/// A rule that spans more than one member's kind: which member breaks it, and what was expected.
struct Violation {
  std::string_view member;
  std::string expected;
};

struct Schema {
  std::span<const Field> fields;
  Members members = Members::closed;
  /// The member and the value that tell this type from the others of a union; empty when none does.
  std::string_view tag_name = {};
  std::string_view tag = {};
  bool tag_required = false;  ///< A union does not guess the type when the tag is missing.
  std::optional<Violation> (*check)(const void* object) = nullptr;

  [[nodiscard]] constexpr Direction direction() const {
    return members == Members::open ? Direction::response : Direction::request;
  }
};

/// The description of a struct; specialised in schemas_*.cc.
template <typename T>
const Schema& schema_of();

bool read_object(JsonView value, void* object, const Schema& schema, Decoder& decoder);
void write_object(const void* object, const Schema& schema, JsonWriter& writer);

/// How a `T` is read from and written as JSON. This one serves every described struct; json_codec.h
/// and special_codecs.h have the others.
template <typename T>
struct JsonCodec {
  static constexpr std::string_view kExpected = "an object";
  static constexpr bool kSchemaDriven = true;

  static bool read(JsonView value, T& out, Decoder& decoder) {
    out = T();  // a repeated member counts alone, nothing of the first one stays
    return read_object(value, &out, schema_of<T>(), decoder);
  }
  static void write(const T& in, JsonWriter& writer) { write_object(&in, schema_of<T>(), writer); }
};

// ---- Building blocks of descriptions

namespace detail {

template <typename Pointer>
struct MemberOf;
template <typename Class, typename Member>
struct MemberOf<Member Class::*> {
  using Object = Class;
  using Type = Member;
};

template <auto kMember, typename Codec>
constexpr Field make_field(std::string_view name, Presence presence) {
  using Object = MemberOf<decltype(kMember)>::Object;
  return {.name = name,
          .presence = presence,
          .expected = Codec::kExpected,
          .read =
              [](JsonView value, void* object, Decoder& decoder) {
                return Codec::read(value, static_cast<Object*>(object)->*kMember, decoder);
              },
          .write =
              [](const void* object, JsonWriter& writer) {
                Codec::write(static_cast<const Object*>(object)->*kMember, writer);
              }};
}

template <auto kMember>
using CodecOf = JsonCodec<typename MemberOf<decltype(kMember)>::Type>;

/// A text as a template argument.
template <std::size_t kSize>
struct Text {
  // NOLINTBEGIN(modernize-avoid-c-arrays, google-explicit-constructor): a literal is an array and a
  // text.
  char chars[kSize];
  consteval Text(const char (&text)[kSize]) { std::copy_n(text, kSize, chars); }
  // NOLINTEND(modernize-avoid-c-arrays, google-explicit-constructor)
  [[nodiscard]] constexpr std::string_view view() const { return {chars, kSize - 1}; }
};

bool read_constant(JsonView value, std::string_view expected, Decoder& decoder);

template <typename T>
T argument_of(std::optional<Violation> (*)(const T&));

}  // namespace detail

/// `Schema::check` from a function of the struct itself.
template <auto kCheck>
std::optional<Violation> check_with(const void* object) {
  return kCheck(*static_cast<const decltype(detail::argument_of(kCheck))*>(object));
}

/// A member that must be there.
template <auto kMember, typename Codec = detail::CodecOf<kMember>>
constexpr Field required(std::string_view name) {
  return detail::make_field<kMember, Codec>(name, Presence::required);
}

/// A member that has a default and is always written.
template <auto kMember, typename Codec = detail::CodecOf<kMember>>
constexpr Field defaulted(std::string_view name) {
  return detail::make_field<kMember, Codec>(name, Presence::defaulted);
}

/// A `std::optional`: null and absent are the same, nothing is written then.
template <auto kMember, typename Codec = detail::CodecOf<kMember>>
constexpr Field nullable(std::string_view name, Presence presence = Presence::defaulted) {
  using Object = detail::MemberOf<decltype(kMember)>::Object;
  Field field = detail::make_field<kMember, Codec>(name, presence);
  field.is_omitted = [](const void* object) {
    return !(static_cast<const Object*>(object)->*kMember).has_value();
  };
  field.missing = [](void* object) { (static_cast<Object*>(object)->*kMember).reset(); };
  return field;
}

/// A member with one possible value, e.g. `"type":"sample"`.
template <detail::Text kValue>
constexpr Field constant(std::string_view name, Presence presence = Presence::required) {
  return {.name = name,
          .presence = presence,
          .expected = kValue.view(),
          .read =
              [](JsonView value, void*, Decoder& decoder) {
                return detail::read_constant(value, kValue.view(), decoder);
              },
          .write = [](const void*, JsonWriter& writer) { writer.string(kValue.view()); }};
}

/// A `type` tag: written always, need not be there, must be right when it is.
template <detail::Text kValue>
constexpr Field tag(std::string_view name = "type") {
  return constant<kValue>(name, Presence::defaulted);
}

/// A `type` tag that answers may leave out or set to null; `kPresent` remembers.
template <auto kPresent, detail::Text kValue>
constexpr Field optional_tag(std::string_view name = "type") {
  using Object = detail::MemberOf<decltype(kPresent)>::Object;
  Field field = constant<kValue>(name, Presence::defaulted);
  field.read = [](JsonView value, void* object, Decoder& decoder) {
    const bool present = value.kind() != JsonView::Kind::null;
    static_cast<Object*>(object)->*kPresent = present;
    return !present || detail::read_constant(value, kValue.view(), decoder);
  };
  field.is_omitted = [](const void* object) {
    return !(static_cast<const Object*>(object)->*kPresent);
  };
  field.missing = [](void* object) { static_cast<Object*>(object)->*kPresent = false; };
  return field;
}

}  // namespace tinker::wire
