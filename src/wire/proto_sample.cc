// SampleResponse (PROTOBUF 4).

#include <charconv>
#include <string>

#include "wire/proto.h"
#include "wire/proto_tensor.h"

namespace tinker::wire {

template <>
struct ProtoMessage<TopkLogprobs> {
  using T = TopkLogprobs;
  static constexpr Members kMembers = Members::open;
  static constexpr auto kFields =
      std::tuple(proto_field<1, &T::token_ids, ProtoArray<std::int32_t, true>>("token_ids"),
                 proto_field<2, &T::logprobs, ProtoArray<float, true>>("logprobs"),
                 proto_field<3, &T::k>("k"),
                 proto_field<4, &T::length>("length"));
};

/// Two matrices in one message: sizes are checked, surplus is cut, an empty one is none.
struct ProtoTopk {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer,
                    std::uint32_t number,
                    const std::optional<TopkLogprobs>& topk) {
    if (!topk) return;
    const std::size_t cells = std::size_t{topk->k} * topk->length;
    if (topk->token_ids.size() != cells || topk->logprobs.size() != cells) {
      writer.errors().fail(base::concat("expected ",
                                        cells,
                                        " cells, found ",
                                        topk->token_ids.size(),
                                        " token ids and ",
                                        topk->logprobs.size(),
                                        " logprobs"));
    }
    ProtoCodec<TopkLogprobs>::write(writer, number, *topk);
  }
  static bool read(pbf_reader& reader, std::optional<TopkLogprobs>& out, ProtoDecoder& decoder) {
    TopkLogprobs& topk = out ? *out : out.emplace();
    if (!read_fields(reader.get_message(), topk, decoder)) return false;
    if (topk.k == 0 || topk.length == 0) {
      out.reset();
      return true;
    }
    const std::uint64_t cells = std::uint64_t{topk.k} * topk.length;  // below 2^64
    if (topk.token_ids.size() < cells || topk.logprobs.size() < cells) {
      return decoder.fail(base::concat("expected ",
                                       topk.length,
                                       " rows of ",
                                       topk.k,
                                       " cells, found ",
                                       topk.token_ids.size(),
                                       " token ids and ",
                                       topk.logprobs.size(),
                                       " logprobs"));
    }
    topk.token_ids.resize(cells);
    topk.logprobs.resize(cells);
    return true;
  }
};

/// Travels by number. A number that this library does not know is kept as its decimal text.
struct ProtoStopReason {
  static constexpr auto kWireType = pbf_wire_type::varint;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer,
                    std::uint32_t number,
                    const OpenEnum<StopReason>& reason) {
    std::int32_t value = 0;
    if (const auto known = reason.known()) {
      value = static_cast<std::int32_t>(*known);
    } else if (!parse(reason.text(), value)) {
      writer.errors().fail(
          base::concat("expected a stop reason or its number, found '", reason.text(), "'"));
    }
    if (value != 0) writer.varint(number, static_cast<std::uint64_t>(std::int64_t{value}));
  }
  static bool parse(std::string_view text, std::int32_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
  }
  static bool read(pbf_reader& reader, OpenEnum<StopReason>& out, ProtoDecoder&) {
    const std::int32_t value = reader.get_enum();
    const bool is_known = value == 0 || value == 1;
    out = is_known ? static_cast<StopReason>(value)
                   : OpenEnum<StopReason>::parse(std::to_string(value));
    return true;
  }
};

template <>
struct ProtoMessage<SampledSequence> {
  using T = SampledSequence;
  static constexpr Members kMembers = Members::open;
  static constexpr auto kFields =
      std::tuple(proto_field<1, &T::stop_reason, ProtoStopReason>("stop_reason"),
                 proto_field<2, &T::tokens>("tokens"),
                 proto_field<3, &T::logprobs>("logprobs"),
                 proto_field<4, &T::topk_logprobs, ProtoTopk>("topk_sampled_logprobs"));
};

/// Both tensors must be there: an absent one reads as one without a dtype.
struct ProtoRequiredTensors {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer,
                    std::uint32_t number,
                    const std::optional<PromptAltTokens>& value) {
    if (!value) return;
    writer.message(number, [&](auto& nested) {
      ProtoCodec<TensorData>::write(nested, 1, value->tokens);
      ProtoCodec<TensorData>::write(nested, 2, value->logprobs);
    });
  }
  static bool read(pbf_reader& reader, std::optional<PromptAltTokens>& out, ProtoDecoder& decoder) {
    std::optional<TensorData> tokens;
    std::optional<TensorData> logprobs;
    pbf_reader fields = reader.get_message();
    while (fields.next()) {
      const bool is_message = fields.wire_type() == kWireType;
      bool ok = true;
      if (is_message && fields.tag() == 1) {
        const Path::Step step(decoder.path(), "tokens");
        ok = read_tensor(fields.get_message(), tokens.emplace(), decoder);
      } else if (is_message && fields.tag() == 2) {
        const Path::Step step(decoder.path(), "logprobs");
        ok = read_tensor(fields.get_message(), logprobs.emplace(), decoder);
      } else {
        ok = read_unknown_field(fields, Members::open, decoder);
      }
      if (!ok) return false;
    }
    if (!tokens || !logprobs) return decoder.fail("expected two tensors, tokens and logprobs");
    out = PromptAltTokens{.tokens = *std::move(tokens), .logprobs = *std::move(logprobs)};
    return true;
  }
};

template <>
struct ProtoMessage<SampleResponse> {
  using T = SampleResponse;
  static constexpr Members kMembers = Members::open;
  static constexpr auto kFields =
      std::tuple(proto_field<1, &T::sequences>("sequences"),
                 proto_field<2, &T::prompt_logprobs>("prompt_logprobs"),
                 proto_field<3, &T::topk_prompt_logprobs, ProtoTopk>("topk_prompt_logprobs"),
                 proto_field<4, &T::prompt_cache_hit_tokens>("prompt_cache_hit_tokens"),
                 proto_field<5, &T::target_prompt_logprobs>("target_prompt_logprobs"),
                 proto_field<6, &T::prompt_alt_tokens, ProtoRequiredTensors>("prompt_alt_tokens"));
};

Result<std::string> encode_proto(const SampleResponse& response) {
  return encode_message([&](auto& writer) { write_fields(writer, response); });
}

template <>
Result<SampleResponse> decode_proto(std::string body, DecodeOptions options) {
  return decode_message<SampleResponse>(
      std::move(body), Direction::response, options, read_fields<SampleResponse>);
}

}  // namespace tinker::wire
