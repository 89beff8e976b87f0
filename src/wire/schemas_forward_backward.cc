// Training data and its results as JSON, the form of SDK 0.24 (PROTOCOL 11). Newer clients send and
// read protobuf. Wire order is declaration order.

#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"
#include "wire/special_codecs.h"

namespace tinker::wire {
namespace {

using Request = ForwardBackwardRequest;

std::optional<Violation> check_spans(const Datum& datum) {
  if (datum.model_input_spans.empty() && datum.loss_fn_input_spans.empty()) return std::nullopt;
  return Violation{
      .member = datum.model_input_spans.empty() ? "loss_fn_input_spans" : "model_input_spans",
      .expected = "expected no spans, because they have no JSON form"};
}

constexpr Field loss_fn_config() {
  Field field = defaulted<&Request::loss_fn_config>("loss_fn_config");
  field.read = [](JsonView value, void* object, Decoder& decoder) {
    auto& config = static_cast<Request*>(object)->loss_fn_config;
    config.clear();
    return value.kind() == JsonView::Kind::null ||
           JsonCodec<LossFnConfig>::read(value, config, decoder);
  };
  field.is_omitted = [](const void* object) {
    return static_cast<const Request*>(object)->loss_fn_config.empty();
  };
  return field;
}

/// The members of a request that JSON nests one level deeper.
const Schema& input_schema() {
  static constexpr std::array kFields = {
      required<&Request::data>("data"),
      required<&Request::loss_fn>("loss_fn"),
      loss_fn_config(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

/// The nested members. Their name says which of the two passes is asked for.
template <bool kForwardOnly>
constexpr Field input(std::string_view name) {
  return {.name = name,
          .presence = Presence::defaulted,
          .expected = "an object",
          .read =
              [](JsonView value, void* object, Decoder& decoder) {
                static_cast<Request*>(object)->forward_only = kForwardOnly;
                return read_object(value, object, input_schema(), decoder);
              },
          .write = [](const void* object,
                      JsonWriter& writer) { write_object(object, input_schema(), writer); },
          .is_omitted =
              [](const void* object) {
                return static_cast<const Request*>(object)->forward_only != kForwardOnly;
              }};
}

}  // namespace

template <>
const Schema& schema_of<Datum>() {
  static constexpr std::array kFields = {
      required<&Datum::loss_fn_inputs>("loss_fn_inputs"),
      required<&Datum::model_input>("model_input"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .check = check_with<check_spans>};
  return kSchema;
}

template <>
const Schema& schema_of<ForwardBackwardRequest>() {
  static constexpr std::array kFields = {
      input<false>("forward_backward_input"),
      input<true>("forward_input"),
      required<&Request::model_id>("model_id"),
      required<&Request::seq_id>("seq_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

bool JsonCodec<Request>::read(JsonView value, Request& out, Decoder& decoder) {
  out = Request();
  if (value.kind() == JsonView::Kind::object) {
    const bool backward = value.member("forward_backward_input").has_value();
    const bool forward = value.member("forward_input").has_value();
    if (backward == forward) {
      const Path::Step step(decoder.path(), "forward_backward_input");
      return decoder.fail(
          base::concat("expected either forward_backward_input or forward_input, found ",
                       backward ? "both" : "neither"));
    }
  }
  return read_object(value, &out, schema_of<Request>(), decoder);
}

void JsonCodec<Request>::write(const Request& in, JsonWriter& writer) {
  write_object(&in, schema_of<Request>(), writer);
}

template <>
const Schema& schema_of<ForwardBackwardOutput>() {
  using T = ForwardBackwardOutput;
  static constexpr std::array kFields = {
      required<&T::loss_fn_output_type>("loss_fn_output_type"),
      required<&T::loss_fn_outputs>("loss_fn_outputs"),
      required<&T::metrics>("metrics"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

}  // namespace tinker::wire
