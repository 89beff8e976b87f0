// ForwardBackwardRequest and what is inside it (PROTOBUF 3).

#include "wire/proto.h"
#include "wire/proto_tensor.h"

namespace tinker::wire {

template <>
struct ProtoMessage<EncodedTextChunk> {
  static constexpr Members kMembers = Members::closed;
  static constexpr auto kFields = std::tuple(proto_field<1, &EncodedTextChunk::tokens>("tokens"));
};

template <>
struct ProtoMessage<ImageDimensions> {
  static constexpr Members kMembers = Members::closed;
  static constexpr auto kFields = std::tuple(proto_field<1, &ImageDimensions::width>("width"),
                                             proto_field<2, &ImageDimensions::height>("height"));
};

/// "png" or "jpeg"; written always, as neither is the empty string.
struct ProtoImageFormat {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, ImageFormat format) {
    ProtoCodec<std::string>::write(writer, number, to_string(format));
  }
  static bool read(pbf_reader& reader, ImageFormat& out, ProtoDecoder& decoder) {
    std::string name;
    if (!ProtoCodec<std::string>::read(reader, name, decoder)) return false;
    const auto format = enum_from_string<ImageFormat>(name);
    if (!format) return decoder.fail(base::concat("expected 'png' or 'jpeg', found '", name, "'"));
    out = *format;
    return true;
  }
};

template <>
struct ProtoMessage<ImageChunk> {
  static constexpr Members kMembers = Members::closed;
  static constexpr auto kFields = std::tuple(
      proto_field<1, &ImageChunk::data, ProtoBytes>("data"),
      proto_field<2, &ImageChunk::format, ProtoImageFormat>("format"),
      proto_field<3, &ImageChunk::expected_tokens, ProtoOptionalInt32>("expected_tokens"),
      proto_field<4, &ImageChunk::override_dimensions>("override_dimensions"));
};

template <>
struct ProtoMessage<DmelChunk> {
  static constexpr Members kMembers = Members::closed;
  static constexpr auto kFields = std::tuple(proto_field<1, &DmelChunk::dmel, ProtoBytes>("dmel"));
};

namespace {

/// Where each kind of chunk sits in the oneof of a Chunk message.
template <typename T>
constexpr std::uint32_t kChunkNumber = 0;
template <>
constexpr std::uint32_t kChunkNumber<EncodedTextChunk> = 1;
template <>
constexpr std::uint32_t kChunkNumber<ImageChunk> = 2;
template <>
constexpr std::uint32_t kChunkNumber<DmelChunk> = 3;

bool has_text_field(pbf_reader message, std::uint32_t number) {
  while (message.next()) {
    if (message.tag() == number && message.wire_type() == pbf_wire_type::length_delimited)
      return true;
    message.skip();
  }
  return false;
}

/// What was read of a Chunk so far.
struct PartialChunk {
  std::optional<ModelInputChunk> chunk = {};
  bool has_format = false;  // an image must say it, no default fits
};

template <typename T>
bool read_chunk_arm(pbf_reader& reader, PartialChunk& out, ProtoDecoder& decoder) {
  // A repeated arm merges into the first one, another arm replaces it.
  if (!out.chunk || !std::holds_alternative<T>(*out.chunk)) out = {.chunk = T{}};
  const pbf_reader message = reader.get_message();
  if constexpr (std::is_same_v<T, ImageChunk>) out.has_format |= has_text_field(message, 2);
  return read_fields(message, std::get<T>(*out.chunk), decoder);
}

bool read_chunk(pbf_reader reader, ModelInputChunk& out, ProtoDecoder& decoder) {
  PartialChunk partial;
  while (reader.next()) {
    const bool is_message = reader.wire_type() == pbf_wire_type::length_delimited;
    bool ok = true;
    if (is_message && reader.tag() == kChunkNumber<EncodedTextChunk>) {
      ok = read_chunk_arm<EncodedTextChunk>(reader, partial, decoder);
    } else if (is_message && reader.tag() == kChunkNumber<ImageChunk>) {
      ok = read_chunk_arm<ImageChunk>(reader, partial, decoder);
    } else if (is_message && reader.tag() == kChunkNumber<DmelChunk>) {
      ok = read_chunk_arm<DmelChunk>(reader, partial, decoder);
    } else {
      ok = read_unknown_field(reader, Members::closed, decoder);
    }
    if (!ok) return false;
  }
  if (!partial.chunk)
    return decoder.fail("expected encoded_text, image or dmel, found none of them");
  if (std::holds_alternative<ImageChunk>(*partial.chunk) && !partial.has_format) {
    const Path::Step step(decoder.path(), "format");
    return decoder.fail("expected 'png' or 'jpeg', found no such field");
  }
  out = *std::move(partial.chunk);
  return true;
}

}  // namespace

template <>
struct ProtoCodec<ModelInputChunk> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const ModelInputChunk& chunk) {
    writer.message(number, [&](auto& nested) {
      std::visit(
          [&]<typename T>(const T& arm) {
            if constexpr (std::is_same_v<T, ImageAssetPointerChunk>) {
              nested.errors().fail(
                  "expected text, an image or dmel: image asset pointers are for sampling only");
            } else {
              ProtoCodec<T>::write(nested, kChunkNumber<T>, arm);
            }
          },
          chunk);
    });
  }
  static bool read(pbf_reader& reader, ModelInputChunk& out, ProtoDecoder& decoder) {
    return read_chunk(reader.get_message(), out, decoder);
  }
};

/// A model input is a repeated Chunk, without a message of its own.
template <>
struct ProtoCodec<ModelInput> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const ModelInput& input) {
    ProtoCodec<std::vector<ModelInputChunk>>::write(writer, number, input.chunks);
  }
  static bool read(pbf_reader& reader, ModelInput& out, ProtoDecoder& decoder) {
    return ProtoCodec<std::vector<ModelInputChunk>>::read(reader, out.chunks, decoder);
  }
};

// ---- Provenance

/// The two arms of a ProvenanceSpan have the same fields; which arm it is becomes `source`.
template <>
struct ProtoMessage<ProvenanceSpan> {
  static constexpr Members kMembers = Members::closed;
  static constexpr auto kFields =
      std::tuple(proto_field<1, &ProvenanceSpan::sequence_id>("sequence_id"),
                 proto_field<2, &ProvenanceSpan::offset>("offset"),
                 proto_field<3, &ProvenanceSpan::length>("length"));
};

template <>
struct ProtoCodec<ProvenanceSpan> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const ProvenanceSpan& span) {
    writer.message(number, [&](auto& nested) {
      nested.message(static_cast<std::uint32_t>(span.source) + 1,
                     [&](auto& arm) { write_fields(arm, span); });
    });
  }
  static bool read(pbf_reader& reader, ProvenanceSpan& out, ProtoDecoder& decoder) {
    pbf_reader arms = reader.get_message();
    bool found = false;
    while (arms.next()) {
      if (arms.wire_type() == kWireType && (arms.tag() == 1 || arms.tag() == 2)) {
        const auto source = static_cast<ProvenanceSpan::Source>(arms.tag() - 1);
        if (!found || source != out.source) out = {.source = source};
        found = true;
        if (!read_fields(arms.get_message(), out, decoder)) return false;
      } else if (!read_unknown_field(arms, Members::closed, decoder)) {
        return false;
      }
    }
    return found || decoder.fail("expected prompt_tokens or sampled_tokens, found neither");
  }
};

template <>
struct ProtoMessage<Datum> {
  static constexpr Members kMembers = Members::closed;
  static constexpr auto kFields =
      std::tuple(proto_field<1, &Datum::model_input>("model_input"),
                 proto_field<2, &Datum::loss_fn_inputs>("loss_fn_inputs"),
                 proto_field<3, &Datum::model_input_spans>("model_input_spans"),
                 proto_field<4, &Datum::loss_fn_input_spans>("loss_fn_input_spans"));
};

// ---- Loss config

/// `map<string, double>`, all that older servers read: the numbers of the config.
struct ProtoLegacyConfig {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const LossFnConfig& config) {
    for (const auto& item : config) {
      if (const auto* as_number = std::get_if<double>(&item.second)) {
        writer.message(number, [&](auto& entry) {
          ProtoCodec<std::string>::write(entry, 1, item.first);
          entry.fixed64(2, *as_number);
        });
      }
    }
  }
  static bool read(pbf_reader& reader, LossFnConfig& out, ProtoDecoder& decoder) {
    std::string key;
    double value = 0.0;
    if (!read_map_entry<ProtoDouble>(reader.get_message(), key, value, Members::exact, decoder))
      return false;
    if (!decoder.loss_config_v2) out.insert_or_assign(std::move(key), value);
    return true;
  }
};

/// LossConfigValue: a number or a text, written whatever it is.
struct ProtoConfigValue {
  using Value = std::variant<double, std::string>;
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const Value& value) {
    writer.message(number, [&](auto& nested) {
      if (const auto* text = std::get_if<std::string>(&value)) {
        if (!is_utf8(*text)) nested.errors().fail("expected UTF-8 text");
        nested.bytes(2, as_byte_span(*text));
      } else {
        nested.fixed64(1, std::get<double>(value));
      }
    });
  }
  static bool read(pbf_reader& reader, std::optional<Value>& out, ProtoDecoder& decoder) {
    pbf_reader arms = reader.get_message();
    while (arms.next()) {
      if (arms.tag() == 1 && arms.wire_type() == pbf_wire_type::fixed64) {
        out = arms.get_double();
      } else if (arms.tag() == 2 && arms.wire_type() == pbf_wire_type::length_delimited) {
        std::string text;
        if (!ProtoCodec<std::string>::read(arms, text, decoder)) return false;
        out = std::move(text);
      } else if (!read_unknown_field(arms, Members::exact, decoder)) {
        return false;
      }
    }
    return true;
  }
};

/// `map<string, LossConfigValue>`, the whole config. When present it counts alone.
struct ProtoConfig {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const LossFnConfig& config) {
    ProtoMap<ProtoConfigValue::Value, ProtoConfigValue>::write(writer, number, config);
  }
  static bool read(pbf_reader& reader, LossFnConfig& out, ProtoDecoder& decoder) {
    if (!std::exchange(decoder.loss_config_v2, true)) out.clear();
    std::string key;
    std::optional<ProtoConfigValue::Value> value;
    if (!read_map_entry<ProtoConfigValue>(
            reader.get_message(), key, value, Members::exact, decoder))
      return false;
    if (!value) {
      const Path::Step step(decoder.path(), key);
      return decoder.fail("expected a number or a text, found neither");
    }
    out.insert_or_assign(std::move(key), *std::move(value));
    return true;
  }
};

template <>
struct ProtoMessage<ForwardBackwardRequest> {
  using T = ForwardBackwardRequest;
  static constexpr Members kMembers = Members::closed;
  static constexpr auto kFields =
      std::tuple(proto_field<1, &T::model_id>("model_id"),
                 proto_field<2, &T::seq_id, ProtoInteger<std::int32_t, std::int64_t>>("seq_id"),
                 proto_field<3, &T::data>("data"),
                 proto_field<4, &T::loss_fn>("loss_fn"),
                 proto_field<5, &T::loss_fn_config, ProtoLegacyConfig>("loss_fn_config"),
                 proto_field<6, &T::forward_only>("forward_only"),
                 proto_field<7, &T::loss_fn_config, ProtoConfig>("loss_fn_config_v2"));
};

Result<std::string> encode_proto(const ForwardBackwardRequest& request) {
  return encode_message([&](auto& writer) { write_fields(writer, request); });
}

Result<std::string> encode_proto(const Datum& datum) {
  return encode_message([&](auto& writer) { write_fields(writer, datum); });
}

namespace {

bool read_request(pbf_reader reader, ForwardBackwardRequest& out, ProtoDecoder& decoder) {
  out.loss_fn = OpenEnum<LossFn>::parse("");  // absent is empty on the wire, not our default
  return read_fields(reader, out, decoder);
}

}  // namespace

template <>
Result<ForwardBackwardRequest> decode_proto(std::string body, DecodeOptions options) {
  return decode_message<ForwardBackwardRequest>(
      std::move(body), Direction::request, options, read_request);
}

template <>
Result<Datum> decode_proto(std::string body, DecodeOptions options) {
  return decode_message<Datum>(std::move(body), Direction::request, options, read_fields<Datum>);
}

}  // namespace tinker::wire
