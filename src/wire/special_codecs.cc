#include "wire/special_codecs.h"

#include <utility>

namespace tinker::wire {

using Kind = JsonView::Kind;

// ---- Stop

bool JsonCodec<Stop>::read(JsonView value, Stop& out, Decoder& decoder) {
  if (value.kind() == Kind::string) {
    out = std::string(value.string());
    return true;
  }
  if (value.kind() != Kind::array) return decoder.fail_expected(kExpected, value);
  bool numbers = false;  // the first element decides; a mixture fails in the reader chosen
  value.for_each_element([&](JsonView first) {
    numbers = first.is_number();
    return false;
  });
  if (numbers) {
    return JsonCodec<std::vector<std::int32_t>>::read(
        value, out.emplace<std::vector<std::int32_t>>(), decoder);
  }
  return JsonCodec<std::vector<std::string>>::read(
      value, out.emplace<std::vector<std::string>>(), decoder);
}

void JsonCodec<Stop>::write(const Stop& in, JsonWriter& writer) {
  std::visit([&]<typename T>(const T& stop) { JsonCodec<T>::write(stop, writer); }, in);
}

// ---- Tensor

namespace {

/// The members of a tensor as they stand in JSON; `data` waits for `dtype`.
struct TensorMembers {
  JsonView data = {};
  TensorDtype dtype = {};
  std::optional<std::vector<std::int64_t>> shape = {};
  std::optional<std::vector<std::int64_t>> crow = {};
  std::optional<std::vector<std::int64_t>> col = {};
};

template <typename T>
bool read_values(JsonView data, TensorData::Values& out, Decoder& decoder) {
  const Path::Step step(decoder.path(), "data");
  if (data.kind() != Kind::array) return decoder.fail_expected("an array", data);
  std::vector<T> values;
  if (const auto bad = data.append_to(values)) {
    const Path::Step element(decoder.path(), *bad);
    return decoder.fail(std::is_same_v<T, float> ? "expected a number of 32-bit float range"
                                                 : "expected an integer of 64 bits");
  }
  out = Buffer<T>(std::move(values));
  return true;
}

void write_integers(const Buffer<std::int64_t>& values, JsonWriter& writer) {
  writer.begin_array();
  for (const auto value : values) writer.integer(value);
  writer.end_array();
}

void write_values(const Buffer<std::int64_t>& values, JsonWriter& writer) {
  write_integers(values, writer);
}

void write_values(const Buffer<float>& values, JsonWriter& writer) {
  writer.begin_array();
  for (const float value : values) writer.number(value);
  writer.end_array();
}

}  // namespace

template <>
const Schema& schema_of<TensorMembers>() {
  static constexpr std::array kFields = {
      required<&TensorMembers::data>("data"),
      required<&TensorMembers::dtype>("dtype"),
      nullable<&TensorMembers::shape>("shape"),
      nullable<&TensorMembers::crow>("sparse_crow_indices"),
      nullable<&TensorMembers::col>("sparse_col_indices"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::exact};
  return kSchema;
}

bool JsonCodec<TensorData>::read(JsonView value, TensorData& out, Decoder& decoder) {
  TensorMembers members;
  TensorData::Values values;
  if (!read_object(value, &members, schema_of<TensorMembers>(), decoder)) return false;
  const bool ok = members.dtype == TensorDtype::int64
                      ? read_values<std::int64_t>(members.data, values, decoder)
                      : read_values<float>(members.data, values, decoder);
  if (!ok) return false;
  if (members.crow.has_value() != members.col.has_value()) {
    const Path::Step step(decoder.path(),
                          members.crow ? "sparse_col_indices" : "sparse_crow_indices");
    return decoder.fail("expected both sparse_crow_indices and sparse_col_indices, or neither");
  }
  if (members.crow && members.col) {
    out = TensorData(std::move(values),
                     std::move(members.shape),
                     {.crow = *std::move(members.crow), .col = *std::move(members.col)});
  } else {
    out = TensorData(std::move(values), std::move(members.shape));
  }
  return true;
}

void JsonCodec<TensorData>::write(const TensorData& in, JsonWriter& writer) {
  writer.begin_object();
  writer.key("data");
  std::visit([&](const auto& values) { write_values(values, writer); }, in.values());
  writer.key("dtype");
  writer.string(to_string(in.dtype()));
  if (const auto& shape = in.shape()) {
    writer.key("shape");
    JsonCodec<TensorData::Shape>::write(*shape, writer);
  }
  if (in.is_sparse()) {
    writer.key("sparse_crow_indices");
    write_integers(in.indices()->crow, writer);
    writer.key("sparse_col_indices");
    write_integers(in.indices()->col, writer);
  }
  writer.end_object();
}

// ---- Optimizers

namespace {

/// Whether `Known` reads from `value`; failures are nobody's business here.
template <typename Known>
std::optional<Known> fits(JsonView value, const Decoder& decoder) {
  Decoder attempt = decoder.attempt();
  Known known;
  return JsonCodec<Known>::read(value, known, attempt) ? std::optional(std::move(known))
                                                       : std::nullopt;
}

/// An object of any family, as it came.
template <typename Other>
bool read_other(JsonView value, Other& out, Decoder& decoder) {
  JsonObject members;
  if (!JsonCodec<JsonObject>::read(value, members, decoder)) return false;
  for (auto& [name, member] : members) {
    const auto* text = member.template get_if<std::string>();
    if (name != "type") {
      out.members.emplace_back(std::move(name), std::move(member));
    } else if (text != nullptr) {
      out.type = *text;
    }
  }
  return true;
}

template <typename Other>
void write_other(const Other& other, JsonWriter& writer) {
  writer.begin_object();
  writer.key("type");
  writer.string(other.type);
  for (const auto& [name, member] : other.members) {
    if (member.is_null()) continue;
    const Path::Step step(writer.path(), name);
    writer.escaped_key(name);
    JsonCodec<Json>::write(member, writer);
  }
  writer.end_object();
}

bool require_type(JsonView value, const std::optional<JsonView>& type, Decoder& decoder) {
  if (value.kind() != Kind::object) return decoder.fail_expected("an object", value);
  if (type && type->kind() == Kind::string) return true;
  const Path::Step step(decoder.path(), "type");
  return decoder.fail(
      base::concat("expected a string, found ", type ? type->kind_name() : "no such member"));
}

std::optional<JsonView> type_of(JsonView value) {
  return value.kind() == Kind::object ? value.member("type") : std::nullopt;
}

}  // namespace

bool JsonCodec<OptimizerConfig>::read(JsonView value, OptimizerConfig& out, Decoder& decoder) {
  if (const auto adam = fits<AdamOptimizerConfig>(value, decoder)) {
    out = *adam;
    return true;
  }
  if (!require_type(value, type_of(value), decoder)) return false;
  if (const auto dimuon = fits<DimuonOptimizerConfig>(value, decoder)) {
    out = *dimuon;
    return true;
  }
  return read_other(value, out.emplace<OtherOptimizerConfig>(), decoder);
}

void JsonCodec<OptimizerConfig>::write(const OptimizerConfig& in, JsonWriter& writer) {
  if (const auto* other = std::get_if<OtherOptimizerConfig>(&in))
    return write_other(*other, writer);
  if (const auto* dimuon = std::get_if<DimuonOptimizerConfig>(&in)) {
    return JsonCodec<DimuonOptimizerConfig>::write(*dimuon, writer);
  }
  JsonCodec<AdamOptimizerConfig>::write({}, writer);
}

bool JsonCodec<OptimParams>::read(JsonView value, OptimParams& out, Decoder& decoder) {
  const auto type = type_of(value);
  if (!type) return JsonCodec<AdamParams>::read(value, out.emplace<AdamParams>(), decoder);
  if (!require_type(value, type, decoder)) return false;
  if (const auto dimuon = fits<DimuonParams>(value, decoder)) {
    out = *dimuon;
    return true;
  }
  return read_other(value, out.emplace<OtherOptimParams>(), decoder);
}

void JsonCodec<OptimParams>::write(const OptimParams& in, JsonWriter& writer) {
  if (const auto* other = std::get_if<OtherOptimParams>(&in)) return write_other(*other, writer);
  if (const auto* dimuon = std::get_if<DimuonParams>(&in)) {
    return JsonCodec<DimuonParams>::write(*dimuon, writer);
  }
  JsonCodec<AdamParams>::write(std::get<AdamParams>(in), writer);
}

bool JsonCodec<OptimStepRequest>::read(JsonView value, OptimStepRequest& out, Decoder& decoder) {
  if (value.kind() == Kind::object) {
    const bool adam = value.member("adam_params").has_value();
    const bool other = value.member("optimizer_params").has_value();
    if (adam == other) {
      const Path::Step step(decoder.path(), adam ? "optimizer_params" : "adam_params");
      return decoder.fail(base::concat("expected either adam_params or optimizer_params, found ",
                                       adam ? "both" : "neither"));
    }
  }
  return read_object(value, &out, schema_of<OptimStepRequest>(), decoder);
}

void JsonCodec<OptimStepRequest>::write(const OptimStepRequest& in, JsonWriter& writer) {
  write_object(&in, schema_of<OptimStepRequest>(), writer);
}

// ---- Settings of losses

bool JsonCodec<std::variant<double, std::string>>::read(JsonView value,
                                                        Value& out,
                                                        Decoder& decoder) {
  if (value.kind() == Kind::string) {
    out = std::string(value.string());
    return true;
  }
  if (!value.is_number()) return decoder.fail_expected(kExpected, value);
  out = value.number();
  return true;
}

void JsonCodec<std::variant<double, std::string>>::write(const Value& in, JsonWriter& writer) {
  std::visit([&]<typename T>(const T& setting) { JsonCodec<T>::write(setting, writer); }, in);
}

}  // namespace tinker::wire
