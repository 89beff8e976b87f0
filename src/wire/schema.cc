#include "wire/schema.h"

namespace tinker::wire {
namespace {

const Field* find_field(std::span<const Field> fields, std::string_view name, std::size_t& hint) {
  // Members mostly come in the order of the description: look at the next one first.
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t at = (hint + i) % fields.size();
    if (fields[at].name == name) {
      hint = at + 1;
      return &fields[at];
    }
  }
  return nullptr;
}

bool read_unknown(const Schema& schema, Decoder& decoder) {
  const bool refuse = schema.members == Members::exact ||
                      (schema.members == Members::closed && !decoder.is_lenient()) ||
                      (schema.members == Members::watched && decoder.is_lenient());
  if (!refuse) {
    if (schema.members != Members::open) decoder.report_unknown();
    return true;
  }
  std::string known;
  for (const Field& field : schema.fields) {
    if (!known.empty()) known += ", ";
    known += field.name;
  }
  return decoder.fail(base::concat("unknown member, expected one of ", known));
}

bool settle_missing(const Schema& schema, void* object, std::uint64_t seen, Decoder& decoder) {
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    const Field& field = schema.fields[i];
    const bool needed = field.presence == Presence::required ||
                        (field.presence == Presence::required_nullable && !decoder.is_lenient());
    if ((seen >> i & 1U) != 0) continue;
    if (field.missing != nullptr) field.missing(object);
    if (!needed) continue;
    const Path::Step step(decoder.path(), field.name);
    return decoder.fail(base::concat("expected ", field.expected, ", found no such member"));
  }
  return true;
}

}  // namespace

bool read_object(JsonView value, void* object, const Schema& schema, Decoder& decoder) {
  if (value.kind() != JsonView::Kind::object) return decoder.fail_expected("an object", value);
  std::uint64_t seen = 0;  // one bit per field; no wire type has 64
  std::size_t hint = 0;
  const bool members_ok = value.for_each_member([&](std::string_view name, JsonView member) {
    const Path::Step step(decoder.path(), name);
    const Field* field = find_field(schema.fields, name, hint);
    if (field == nullptr) return read_unknown(schema, decoder);
    seen |= std::uint64_t{1} << static_cast<std::size_t>(field - schema.fields.data());
    return field->read(member, object, decoder);
  });
  if (!members_ok || !settle_missing(schema, object, seen, decoder)) return false;
  if (schema.check != nullptr) {
    if (const auto violation = schema.check(object)) {
      const Path::Step step(decoder.path(), violation->member);
      return decoder.fail(violation->expected);
    }
  }
  decoder.member_count() = static_cast<std::size_t>(std::popcount(seen));
  return true;
}

void write_object(const void* object, const Schema& schema, JsonWriter& writer) {
  if (schema.check != nullptr) {
    if (const auto violation = schema.check(object)) {
      const Path::Step step(writer.path(), violation->member);
      writer.fail(violation->expected);
    }
  }
  writer.begin_object();
  for (const Field& field : schema.fields) {
    if (field.is_omitted != nullptr && field.is_omitted(object)) continue;
    const Path::Step step(writer.path(), field.name);
    writer.key(field.name);
    field.write(object, writer);
  }
  writer.end_object();
}

bool detail::read_constant(JsonView value, std::string_view expected, Decoder& decoder) {
  if (value.kind() == JsonView::Kind::string && value.string() == expected) return true;
  return decoder.fail(base::concat("expected '",
                                   expected,
                                   "', found ",
                                   value.kind() == JsonView::Kind::string
                                       ? base::concat("'", value.string(), "'")
                                       : std::string(value.kind_name())));
}

}  // namespace tinker::wire
