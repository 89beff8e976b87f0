#include "wire/json_codec.h"

#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "wire/base64.h"

namespace tinker::wire {

using Kind = JsonView::Kind;

bool JsonCodec<bool>::read(JsonView value, bool& out, Decoder& decoder) {
  if (value.kind() != Kind::boolean) return decoder.fail_expected(kExpected, value);
  out = value.boolean();
  return true;
}

bool JsonCodec<std::int64_t>::read(JsonView value, std::int64_t& out, Decoder& decoder) {
  const auto integer = value.as_integer();
  if (!integer) return decoder.fail_expected(kExpected, value);
  out = *integer;
  return true;
}

bool JsonCodec<std::int32_t>::read(JsonView value, std::int32_t& out, Decoder& decoder) {
  const auto integer = value.as_integer();
  if (!integer || !std::in_range<std::int32_t>(*integer)) {
    return decoder.fail_expected(kExpected, value);
  }
  out = static_cast<std::int32_t>(*integer);
  return true;
}

bool JsonCodec<Seed>::read(JsonView value, Seed& out, Decoder& decoder) {
  if (value.kind() == Kind::large_integer) {
    out = value.large_integer();
    return true;
  }
  std::int64_t integer = 0;
  if (!JsonCodec<std::int64_t>::read(value, integer, decoder)) return false;
  out = integer;
  return true;
}

void JsonCodec<Seed>::write(const Seed& in, JsonWriter& writer) {
  if (in.is_negative()) {
    writer.integer(static_cast<std::int64_t>(in.bits()));
  } else {
    writer.integer(in.bits());
  }
}

namespace {

/// The non-finite numbers that servers send as strings (PROTOCOL 5), in any case.
std::optional<double> non_finite(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool negative = lower.starts_with('-');
  if (negative || lower.starts_with('+')) lower.erase(0, 1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (lower == "inf" || lower == "infinity") return negative ? -kInfinity : kInfinity;
  return std::nullopt;
}

}  // namespace

bool JsonCodec<double>::read(JsonView value, double& out, Decoder& decoder) {
  if (value.is_number()) {
    out = value.number();
    return true;
  }
  if (decoder.is_response() && value.kind() == Kind::string) {
    if (const auto number = non_finite(value.string())) {
      out = *number;
      return true;
    }
  }
  return decoder.fail_expected(kExpected, value);
}

bool JsonCodec<std::string>::read(JsonView value, std::string& out, Decoder& decoder) {
  if (value.kind() != Kind::string) return decoder.fail_expected(kExpected, value);
  out = value.string();
  return true;
}

bool JsonCodec<Secret>::read(JsonView value, Secret& out, Decoder& decoder) {
  std::string text;
  if (!JsonCodec<std::string>::read(value, text, decoder)) return false;
  out = Secret(std::move(text));
  return true;
}

bool Base64Codec::read(JsonView value, std::string& out, Decoder& decoder) {
  if (value.kind() != Kind::string) return decoder.fail_expected(kExpected, value);
  auto bytes = from_base64(value.string());
  if (!bytes) return decoder.fail("expected a base64 string, found other characters or padding");
  out = *std::move(bytes);
  return true;
}

bool JsonCodec<DateTime>::read(JsonView value, DateTime& out, Decoder& decoder) {
  if (value.kind() != Kind::string && !value.is_number()) {
    return decoder.fail_expected(kExpected, value);
  }
  auto parsed =
      value.is_number() ? DateTime::from_unix(value.number()) : DateTime::parse(value.string());
  if (!parsed) return decoder.fail(parsed.error().message);
  out = *parsed;
  return true;
}

bool JsonCodec<Json>::read(JsonView value, Json& out, Decoder& decoder) {
  switch (value.kind()) {
    case Kind::null: out = nullptr; return true;
    case Kind::boolean: out = value.boolean(); return true;
    case Kind::integer: out = value.integer(); return true;
    case Kind::large_integer: out = value.large_integer(); return true;
    case Kind::number: out = value.number(); return true;
    case Kind::string: out = value.string(); return true;
    case Kind::array: {
      Json::Array elements;
      value.for_each_element([&](JsonView element) {
        return JsonCodec<Json>::read(element, elements.emplace_back(), decoder);
      });
      out = std::move(elements);
      return true;
    }
    case Kind::object: {
      JsonObject members;
      JsonCodec<JsonObject>::read(value, members, decoder);
      out = std::move(members);
      return true;
    }
  }
  return false;
}

namespace {

struct WriteJson {
  JsonWriter& writer;

  void operator()(std::nullptr_t) const { writer.null(); }
  void operator()(bool value) const { writer.boolean(value); }
  void operator()(std::int64_t value) const { writer.integer(value); }
  void operator()(std::uint64_t value) const { writer.integer(value); }
  void operator()(double value) const { writer.number(value); }
  void operator()(const std::string& value) const { writer.string(value); }
  void operator()(const Json::Array& value) const { JsonCodec<Json::Array>::write(value, writer); }
  void operator()(const JsonObject& value) const { JsonCodec<JsonObject>::write(value, writer); }
};

}  // namespace

void JsonCodec<Json>::write(const Json& in, JsonWriter& writer) {
  std::visit(WriteJson{writer}, in.value());
}

bool JsonCodec<JsonObject>::read(JsonView value, JsonObject& out, Decoder& decoder) {
  if (value.kind() != Kind::object) return decoder.fail_expected(kExpected, value);
  out.clear();
  std::map<std::string_view, std::size_t> places;
  return value.for_each_member([&](std::string_view name, JsonView member) {
    const auto [place, is_new] = places.try_emplace(name, out.size());
    if (is_new) out.emplace_back(name, nullptr);
    return JsonCodec<Json>::read(member, out[place->second].second, decoder);  // the last one wins
  });
}

void JsonCodec<JsonObject>::write(const JsonObject& in, JsonWriter& writer) {
  writer.begin_object();
  for (const auto& [name, member] : in) {
    const Path::Step step(writer.path(), name);
    writer.escaped_key(name);
    JsonCodec<Json>::write(member, writer);
  }
  writer.end_object();
}

namespace {

template <typename T>
bool read_integers(JsonView value,
                   std::vector<T>& out,
                   std::string_view expected,
                   Decoder& decoder) {
  if (value.kind() != Kind::array) return decoder.fail_expected(expected, value);
  out.clear();
  const auto bad = value.append_to(out);
  if (!bad) return true;
  const Path::Step step(decoder.path(), *bad);
  return decoder.fail(base::concat("expected an integer of ", sizeof(T) * 8, " bits"));
}

}  // namespace

bool JsonCodec<std::vector<std::int32_t>>::read(JsonView value,
                                                std::vector<std::int32_t>& out,
                                                Decoder& decoder) {
  return read_integers(value, out, kExpected, decoder);
}

bool JsonCodec<std::vector<std::int64_t>>::read(JsonView value,
                                                std::vector<std::int64_t>& out,
                                                Decoder& decoder) {
  return read_integers(value, out, kExpected, decoder);
}

void JsonCodec<std::vector<std::int64_t>>::write(const std::vector<std::int64_t>& in,
                                                 JsonWriter& writer) {
  writer.begin_array();
  for (const auto value : in) writer.integer(value);
  writer.end_array();
}

namespace detail {
namespace {

std::string quoted_list(std::span<const std::string_view> names) {
  std::string out;
  for (const auto name : names) out += base::concat(out.empty() ? "'" : ", '", name, "'");
  return out;
}

std::string tags_of(std::span<const Arm> arms) {
  std::vector<std::string_view> tags;
  for (const Arm& arm : arms) tags.push_back(arm.schema->tag);
  return quoted_list(tags);
}

bool read_tagged(JsonView value,
                 JsonView tag,
                 void* variant,
                 std::span<const Arm> arms,
                 bool (*keep_unknown)(JsonView, void*, Decoder&),
                 Decoder& decoder) {
  const std::string_view tag_name = arms.front().schema->tag_name;
  if (tag.kind() == Kind::string) {
    for (const Arm& arm : arms) {
      if (arm.schema->tag == tag.string()) return arm.read(value, variant, decoder);
    }
    if (keep_unknown != nullptr) return keep_unknown(value, variant, decoder);
  }
  const Path::Step step(decoder.path(), tag_name);
  return decoder.fail(base::concat("expected one of ",
                                   tags_of(arms),
                                   ", found ",
                                   tag.kind() == Kind::string ? base::concat("'", tag.string(), "'")
                                                              : std::string(tag.kind_name())));
}

}  // namespace

bool read_name(JsonView value,
               std::string_view& out,
               std::span<const std::string_view> names,
               bool allow_others,
               Decoder& decoder) {
  const std::string expected = names.empty() ? "a string" : "one of " + quoted_list(names);
  if (value.kind() != Kind::string) return decoder.fail_expected(expected, value);
  out = value.string();
  if (allow_others || std::ranges::find(names, out) != names.end()) return true;
  return decoder.fail(base::concat("expected ", expected, ", found '", out, "'"));
}

bool read_union(JsonView value,
                void* variant,
                std::span<const Arm> arms,
                bool (*keep_unknown)(JsonView, void*, Decoder&),
                Decoder& decoder) {
  if (value.kind() != Kind::object) return decoder.fail_expected("an object", value);
  const std::string_view tag_name = arms.front().schema->tag_name;
  if (!tag_name.empty()) {
    if (const auto tag = value.member(tag_name)) {
      return read_tagged(value, *tag, variant, arms, keep_unknown, decoder);
    }
    if (arms.front().schema->tag_required) {
      const Path::Step step(decoder.path(), tag_name);
      return decoder.fail(
          base::concat("expected one of ", tags_of(arms), ", found no such member"));
    }
  }

  const Arm* best = nullptr;
  const Arm* nearest = &arms.front();  // speaks when none fits
  std::size_t best_count = 0;
  for (const Arm& arm : arms) {
    Decoder attempt = decoder.attempt();
    if (!arm.read(value, variant, attempt)) continue;
    if (best == nullptr || attempt.member_count() > best_count) {
      best = &arm;
      best_count = attempt.member_count();
    }
  }
  return (best != nullptr ? best : nearest)->read(value, variant, decoder);
}

}  // namespace detail

}  // namespace tinker::wire
