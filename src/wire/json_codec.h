#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tinker/secret.h"
#include "tinker/types/date_time.h"
#include "tinker/types/json.h"
#include "tinker/types/metadata.h"
#include "tinker/types/open_enum.h"
#include "tinker/types/seed.h"
#include "wire/schema.h"

namespace tinker::wire {

// ---- Values

template <>
struct JsonCodec<bool> {
  static constexpr std::string_view kExpected = "true or false";
  static bool read(JsonView value, bool& out, Decoder& decoder);
  static void write(bool in, JsonWriter& writer) { writer.boolean(in); }
};

template <>
struct JsonCodec<std::int64_t> {
  static constexpr std::string_view kExpected = "an integer of 64 bits";
  static bool read(JsonView value, std::int64_t& out, Decoder& decoder);
  static void write(std::int64_t in, JsonWriter& writer) { writer.integer(in); }
};

template <>
struct JsonCodec<std::int32_t> {
  static constexpr std::string_view kExpected = "an integer of 32 bits";
  static bool read(JsonView value, std::int32_t& out, Decoder& decoder);
  static void write(std::int32_t in, JsonWriter& writer) { writer.integer(std::int64_t{in}); }
};

template <>
struct JsonCodec<Seed> {
  static constexpr std::string_view kExpected = "an integer of 64 bits";
  static bool read(JsonView value, Seed& out, Decoder& decoder);
  static void write(const Seed& in, JsonWriter& writer);
};

template <>
struct JsonCodec<double> {
  static constexpr std::string_view kExpected = "a number";
  static bool read(JsonView value, double& out, Decoder& decoder);
  static void write(double in, JsonWriter& writer) { writer.number(in); }
};

template <>
struct JsonCodec<std::string> {
  static constexpr std::string_view kExpected = "a string";
  static bool read(JsonView value, std::string& out, Decoder& decoder);
  static void write(const std::string& in, JsonWriter& writer) { writer.string(in); }
};

template <>
struct JsonCodec<Secret> {
  static constexpr std::string_view kExpected = "a string";
  static bool read(JsonView value, Secret& out, Decoder& decoder);
  static void write(const Secret& in, JsonWriter& writer) { writer.string(in.expose()); }
};

/// Bytes as a base64 string.
struct Base64Codec {
  static constexpr std::string_view kExpected = "a base64 string";
  static bool read(JsonView value, std::string& out, Decoder& decoder);
  static void write(const std::string& in, JsonWriter& writer) { writer.base64(in); }
};

template <>
struct JsonCodec<DateTime> {
  static constexpr std::string_view kExpected = "a date and time";
  static bool read(JsonView value, DateTime& out, Decoder& decoder);
  static void write(const DateTime& in, JsonWriter& writer) { writer.string(in.to_string()); }
};

template <>
struct JsonCodec<Json> {
  static constexpr std::string_view kExpected = "a value";
  static bool read(JsonView value, Json& out, Decoder& decoder);
  static void write(const Json& in, JsonWriter& writer);
};

template <>
struct JsonCodec<JsonObject> {
  static constexpr std::string_view kExpected = "an object";
  static bool read(JsonView value, JsonObject& out, Decoder& decoder);
  static void write(const JsonObject& in, JsonWriter& writer);
};

/// Leaves a member unread, for codecs that need another one first.
template <>
struct JsonCodec<JsonView> {
  static constexpr std::string_view kExpected = "a value";
  static bool read(JsonView value, JsonView& out, Decoder&) {
    out = value;
    return true;
  }
  static void write(JsonView, JsonWriter&) {}
};

namespace detail {
bool read_name(JsonView value,
               std::string_view& out,
               std::span<const std::string_view> names,
               bool allow_others,
               Decoder& decoder);
}  // namespace detail

template <WireEnum E>
struct JsonCodec<E> {
  static constexpr std::string_view kExpected = "a known name";
  static bool read(JsonView value, E& out, Decoder& decoder) {
    std::string_view name;
    if (!detail::read_name(value, name, tinker::detail::kEnumNames<E>, false, decoder))
      return false;
    const auto known = enum_from_string<E>(name);
    out = known.value_or(out);
    return known.has_value();
  }
  static void write(E in, JsonWriter& writer) { writer.string(to_string(in)); }
};

template <WireEnum E>
struct JsonCodec<OpenEnum<E>> {
  static constexpr std::string_view kExpected = "a name";
  static bool read(JsonView value, OpenEnum<E>& out, Decoder& decoder) {
    std::string_view name;
    if (!detail::read_name(value, name, {}, true, decoder)) return false;
    out = OpenEnum<E>::parse(name);
    return true;
  }
  static void write(const OpenEnum<E>& in, JsonWriter& writer) { writer.string(in.text()); }
};

// ---- Containers

template <typename T>
struct JsonCodec<std::optional<T>> {
  static constexpr std::string_view kExpected = JsonCodec<T>::kExpected;
  static bool read(JsonView value, std::optional<T>& out, Decoder& decoder) {
    out.reset();
    if (value.kind() == JsonView::Kind::null) return true;
    if constexpr (std::is_default_constructible_v<T>) {
      return JsonCodec<T>::read(value, out.emplace(), decoder);
    } else {
      return JsonCodec<T>::read(value, out.emplace(0), decoder);
    }
  }
  static void write(const std::optional<T>& in, JsonWriter& writer) {
    if (in) {
      JsonCodec<T>::write(*in, writer);
    } else {
      writer.null();
    }
  }
};

template <typename T>
struct JsonCodec<std::vector<T>> {
  static constexpr std::string_view kExpected = "an array";
  static bool read(JsonView value, std::vector<T>& out, Decoder& decoder) {
    if (value.kind() != JsonView::Kind::array) return decoder.fail_expected(kExpected, value);
    out.clear();
    return value.for_each_element([&](JsonView element) {
      const Path::Step step(decoder.path(), out.size());
      return JsonCodec<T>::read(element, out.emplace_back(), decoder);
    });
  }
  static void write(const std::vector<T>& in, JsonWriter& writer) {
    writer.begin_array();
    std::size_t index = 0;
    for (const T& element : in) {
      const Path::Step step(writer.path(), index++);
      JsonCodec<T>::write(element, writer);
    }
    writer.end_array();
  }
};

/// Token ids, the long arrays of the protocol.
template <>
struct JsonCodec<std::vector<std::int32_t>> {
  static constexpr std::string_view kExpected = "an array of token ids";
  static bool read(JsonView value, std::vector<std::int32_t>& out, Decoder& decoder);
  static void write(const std::vector<std::int32_t>& in, JsonWriter& writer) {
    writer.integers(in);
  }
};

template <>
struct JsonCodec<std::vector<std::int64_t>> {
  static constexpr std::string_view kExpected = "an array of integers";
  static bool read(JsonView value, std::vector<std::int64_t>& out, Decoder& decoder);
  static void write(const std::vector<std::int64_t>& in, JsonWriter& writer);
};

template <typename T>
struct JsonCodec<std::map<std::string, T, std::less<>>> {
  static constexpr std::string_view kExpected = "an object";
  static bool read(JsonView value, std::map<std::string, T, std::less<>>& out, Decoder& decoder) {
    if (value.kind() != JsonView::Kind::object) return decoder.fail_expected(kExpected, value);
    out.clear();
    return value.for_each_member([&](std::string_view name, JsonView member) {
      const Path::Step step(decoder.path(), name);
      return JsonCodec<T>::read(member, out[std::string(name)], decoder);
    });
  }
  static void write(const std::map<std::string, T, std::less<>>& in, JsonWriter& writer) {
    writer.begin_object();
    for (const auto& [name, member] : in) {
      const Path::Step step(writer.path(), name);
      writer.escaped_key(name);
      JsonCodec<T>::write(member, writer);
    }
    writer.end_object();
  }
};

// ---- Unions

namespace detail {

/// One arm of a union, type-erased.
struct Arm {
  const Schema* schema = nullptr;
  bool (*read)(JsonView value, void* variant, Decoder& decoder) = nullptr;
};

/// Reads the arm the tag names; without a tag the one that fits, and of several the one that knows
/// most members, as the official models choose.
bool read_union(JsonView value,
                void* variant,
                std::span<const Arm> arms,
                bool (*keep_unknown)(JsonView value, void* variant, Decoder& decoder),
                Decoder& decoder);

}  // namespace detail

/// A union of described structs, told apart by their tags or, lacking one, by their members. With
/// an `UnknownVariant` arm, other tags are kept as they came.
template <typename... Arms>
struct JsonCodec<std::variant<Arms...>> {
  using Variant = std::variant<Arms...>;
  static constexpr std::string_view kExpected = "an object";
  static constexpr bool kOpen = (std::is_same_v<Arms, UnknownVariant> || ...);

  static bool read(JsonView value, Variant& out, Decoder& decoder) {
    static const auto arms = [] {
      std::array<detail::Arm, sizeof...(Arms) - (kOpen ? 1 : 0)> list;
      std::size_t next = 0;
      (add<Arms>(list, next), ...);
      return list;
    }();
    return detail::read_union(value, &out, arms, kOpen ? keep_unknown : nullptr, decoder);
  }
  static void write(const Variant& in, JsonWriter& writer) {
    std::visit(
        [&]<typename Arm>(const Arm& arm) {
          if constexpr (std::is_same_v<Arm, UnknownVariant>) {
            JsonCodec<Json>::write(arm.value, writer);
          } else {
            JsonCodec<Arm>::write(arm, writer);
          }
        },
        in);
  }

 private:
  template <typename Arm>
  static void add(auto& list, std::size_t& next) {
    if constexpr (!std::is_same_v<Arm, UnknownVariant>) {
      list[next++] = {
          &schema_of<Arm>(), [](JsonView value, void* variant, Decoder& decoder) {
            return JsonCodec<Arm>::read(
                value, static_cast<Variant*>(variant)->template emplace<Arm>(), decoder);
          }};
    }
  }
  static bool keep_unknown(JsonView value, void* variant, Decoder& decoder) {
    if constexpr (kOpen) {
      auto& unknown = static_cast<Variant*>(variant)->template emplace<UnknownVariant>();
      return JsonCodec<Json>::read(value, unknown.value, decoder);
    } else {
      return false;
    }
  }
};

}  // namespace tinker::wire
