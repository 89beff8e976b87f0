// Model inputs, sampling requests and sampling sessions. Wire order is declaration order.

#include "tinker/types/model_input.h"
#include "tinker/types/sample.h"
#include "tinker/types/sampling_session.h"
#include "wire/special_codecs.h"

namespace tinker::wire {

template <>
const Schema& schema_of<EncodedTextChunk>() {
  using T = EncodedTextChunk;
  static constexpr std::array kFields = {
      required<&T::tokens>("tokens"),
      tag<"encoded_text">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "encoded_text"};
  return kSchema;
}

template <>
const Schema& schema_of<ImageChunk>() {
  using T = ImageChunk;
  static constexpr std::array kFields = {
      required<&T::data, Base64Codec>("data"),
      required<&T::format>("format"),
      nullable<&T::expected_tokens>("expected_tokens"),
      tag<"image">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "image"};
  return kSchema;
}

template <>
const Schema& schema_of<ImageAssetPointerChunk>() {
  using T = ImageAssetPointerChunk;
  static constexpr std::array kFields = {
      required<&T::format>("format"),
      required<&T::location>("location"),
      nullable<&T::expected_tokens>("expected_tokens"),
      tag<"image_asset_pointer">(),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .tag_name = "type", .tag = "image_asset_pointer"};
  return kSchema;
}

template <>
const Schema& schema_of<DmelChunk>() {
  using T = DmelChunk;
  static constexpr std::array kFields = {
      required<&T::dmel, Base64Codec>("dmel"),
      tag<"dmel">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "dmel"};
  return kSchema;
}

template <>
const Schema& schema_of<ModelInput>() {
  using T = ModelInput;
  static constexpr std::array kFields = {required<&T::chunks>("chunks")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<SamplingParams>() {
  using T = SamplingParams;
  static constexpr std::array kFields = {
      nullable<&T::max_tokens>("max_tokens"),
      nullable<&T::seed>("seed"),
      nullable<&T::stop>("stop"),
      defaulted<&T::temperature>("temperature"),
      defaulted<&T::top_k>("top_k"),
      defaulted<&T::top_p>("top_p"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::watched};
  return kSchema;
}

template <>
const Schema& schema_of<SampleRequest>() {
  using T = SampleRequest;
  static constexpr std::array kFields = {
      defaulted<&T::num_samples>("num_samples"),
      required<&T::prompt>("prompt"),
      required<&T::sampling_params>("sampling_params"),
      nullable<&T::base_model>("base_model"),
      nullable<&T::model_path>("model_path"),
      nullable<&T::sampling_session_id>("sampling_session_id"),
      nullable<&T::seq_id>("seq_id"),
      nullable<&T::prompt_logprobs>("prompt_logprobs"),
      defaulted<&T::topk_prompt_logprobs>("topk_prompt_logprobs"),
      defaulted<&T::topk_sample_logprobs>("topk_sample_logprobs"),
      nullable<&T::target_prompt_logprobs>("target_prompt_logprobs"),
      defaulted<&T::prompt_alt_tokens_k>("prompt_alt_tokens_k"),
      nullable<&T::prompt_logprobs_last_n>("prompt_logprobs_last_n"),
      nullable<&T::record_stability_info>("record_stability_info"),
      tag<"sample">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<CreateSamplingSessionRequest>() {
  using T = CreateSamplingSessionRequest;
  static constexpr std::array kFields = {
      required<&T::session_id>("session_id"),
      required<&T::sampling_session_seq_id>("sampling_session_seq_id"),
      nullable<&T::base_model>("base_model"),
      nullable<&T::model_path>("model_path"),
      tag<"create_sampling_session">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<CreateSamplingSessionResponse>() {
  using T = CreateSamplingSessionResponse;
  static constexpr std::array kFields = {
      tag<"create_sampling_session">(),
      required<&T::sampling_session_id>("sampling_session_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<JoinSamplingSessionRequest>() {
  using T = JoinSamplingSessionRequest;
  static constexpr std::array kFields = {
      required<&T::sampling_session_id>("sampling_session_id"),
      tag<"join_sampling_session">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<JoinSamplingSessionResponse>() {
  using T = JoinSamplingSessionResponse;
  static constexpr std::array kFields = {
      tag<"join_sampling_session">(),
      required<&T::client_counter>("client_counter"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GetSamplerResponse>() {
  using T = GetSamplerResponse;
  static constexpr std::array kFields = {
      required<&T::sampler_id>("sampler_id"),
      required<&T::base_model>("base_model"),
      nullable<&T::model_path>("model_path"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

}  // namespace tinker::wire
