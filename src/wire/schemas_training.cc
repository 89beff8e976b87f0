// Models, optimizers, custom losses and weights. Wire order is declaration order.

#include <cmath>

#include "tinker/types/custom_loss.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/weights.h"
#include "wire/special_codecs.h"

namespace tinker::wire {
namespace {

std::optional<Violation> check_config(const DimuonOptimizerConfig& config) {
  if (config.version == 1) return std::nullopt;
  return Violation{.member = "version",
                   .expected = base::concat("expected 1, found ", config.version)};
}

std::optional<Violation> check_params(const DimuonParams& params) {
  if (std::isnan(params.learning_rate) || params.learning_rate < 0.0) {
    return Violation{.member = "learning_rate",
                     .expected = base::concat("expected at least 0, found ", params.learning_rate)};
  }
  if (std::isnan(params.beta1) || params.beta1 < 0.0 || params.beta1 >= 1.0) {
    return Violation{
        .member = "beta1",
        .expected = base::concat("expected at least 0 and below 1, found ", params.beta1)};
  }
  return std::nullopt;
}

std::optional<Violation> check_rank(const CustomLossInput& input) {
  if (input.rank >= 0 && input.rank <= 2) return std::nullopt;
  return Violation{.member = "rank",
                   .expected = base::concat("expected 0, 1 or 2, found ", input.rank)};
}

/// The one format of graphs there is.
constexpr Field format_one() {
  return {.name = "format",
          .presence = Presence::defaulted,
          .expected = "1",
          .read =
              [](JsonView value, void*, Decoder& decoder) {
                return value.as_integer() == 1 || decoder.fail_expected("1", value);
              },
          .write = [](const void*, JsonWriter& writer) { writer.integer(std::int64_t{1}); }};
}

// Adam's parameters and those of the other families have a member each; one is written.
constexpr Field adam_params() {
  Field field = defaulted<&OptimStepRequest::optim_params>("adam_params");
  field.is_omitted = [](const void* object) {
    return static_cast<const OptimStepRequest*>(object)->optim_params.index() != 0;
  };
  return field;
}

constexpr Field optimizer_params() {
  Field field = defaulted<&OptimStepRequest::optim_params>("optimizer_params");
  field.is_omitted = [](const void* object) {
    return static_cast<const OptimStepRequest*>(object)->optim_params.index() == 0;
  };
  return field;
}

}  // namespace

template <>
const Schema& schema_of<LoraConfig>() {
  using T = LoraConfig;
  static constexpr std::array kFields = {
      required<&T::rank>("rank"),
      nullable<&T::seed>("seed"),
      defaulted<&T::train_unembed>("train_unembed"),
      defaulted<&T::train_mlp>("train_mlp"),
      defaulted<&T::train_attn>("train_attn"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::exact};
  return kSchema;
}

template <>
const Schema& schema_of<AdamOptimizerConfig>() {
  static constexpr std::array kFields = {tag<"adamw">()};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::exact};
  return kSchema;
}

template <>
const Schema& schema_of<DimuonOptimizerConfig>() {
  using T = DimuonOptimizerConfig;
  static constexpr std::array kFields = {
      tag<"dimuon">(),
      defaulted<&T::version>("version"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::exact, .check = check_with<check_config>};
  return kSchema;
}

template <>
const Schema& schema_of<AdamParams>() {
  using T = AdamParams;
  static constexpr std::array kFields = {
      defaulted<&T::learning_rate>("learning_rate"),
      defaulted<&T::beta1>("beta1"),
      defaulted<&T::beta2>("beta2"),
      defaulted<&T::eps>("eps"),
      defaulted<&T::weight_decay>("weight_decay"),
      defaulted<&T::grad_clip_norm>("grad_clip_norm"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::exact};
  return kSchema;
}

template <>
const Schema& schema_of<DimuonParams>() {
  using T = DimuonParams;
  static constexpr std::array kFields = {
      tag<"dimuon">(),
      required<&T::learning_rate>("learning_rate"),
      defaulted<&T::grad_clip_norm>("grad_clip_norm"),
      defaulted<&T::beta1>("beta1"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::exact, .check = check_with<check_params>};
  return kSchema;
}

template <>
const Schema& schema_of<OptimStepRequest>() {
  using T = OptimStepRequest;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      nullable<&T::seq_id>("seq_id"),
      tag<"optim_step">(),
      adam_params(),
      optimizer_params(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<OptimStepResponse>() {
  using T = OptimStepResponse;
  static constexpr std::array kFields = {nullable<&T::metrics>("metrics")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CreateModelRequest>() {
  using T = CreateModelRequest;
  static constexpr std::array kFields = {
      required<&T::session_id>("session_id"),
      required<&T::model_seq_id>("model_seq_id"),
      required<&T::base_model>("base_model"),
      nullable<&T::user_metadata>("user_metadata"),
      nullable<&T::lora_config>("lora_config"),
      defaulted<&T::optimizer_config>("optimizer_config"),
      tag<"create_model">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<CreateModelResponse>() {
  using T = CreateModelResponse;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      tag<"create_model">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GetInfoRequest>() {
  using T = GetInfoRequest;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      tag<"get_info">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<ModelData>() {
  using T = ModelData;
  static constexpr std::array kFields = {
      nullable<&T::arch>("arch"),
      nullable<&T::model_name>("model_name"),
      nullable<&T::tokenizer_id>("tokenizer_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GetInfoResponse>() {
  using T = GetInfoResponse;
  static constexpr std::array kFields = {
      optional_tag<&T::has_type, "get_info">(),
      required<&T::model_data>("model_data"),
      required<&T::model_id>("model_id"),
      defaulted<&T::optimizer_config>("optimizer_config"),
      nullable<&T::is_lora>("is_lora"),
      nullable<&T::lora_rank>("lora_rank"),
      nullable<&T::model_name>("model_name"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<UnloadModelRequest>() {
  using T = UnloadModelRequest;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      tag<"unload_model">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<UnloadModelResponse>() {
  using T = UnloadModelResponse;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      optional_tag<&T::has_type, "unload_model">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CustomLossInput>() {
  using T = CustomLossInput;
  static constexpr std::array kFields = {
      required<&T::name>("name"),
      required<&T::rank>("rank"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::exact, .check = check_with<check_rank>};
  return kSchema;
}

template <>
const Schema& schema_of<CustomLossNode>() {
  using T = CustomLossNode;
  static constexpr std::array kFields = {
      required<&T::op>("op"),
      required<&T::name>("name"),
      required<&T::target>("target"),
      defaulted<&T::args>("args"),
      defaulted<&T::kwargs>("kwargs"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::exact};
  return kSchema;
}

template <>
const Schema& schema_of<CustomLossGraph>() {
  using T = CustomLossGraph;
  static constexpr std::array kFields = {
      format_one(),
      required<&T::nodes>("nodes"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::exact};
  return kSchema;
}

template <>
const Schema& schema_of<CreateCustomLossRequest>() {
  using T = CreateCustomLossRequest;
  static constexpr std::array kFields = {
      required<&T::session_id>("session_id"),
      required<&T::custom_loss_seq_id>("custom_loss_seq_id"),
      required<&T::name>("name"),
      required<&T::inputs>("inputs"),
      required<&T::graph>("graph"),
      tag<"create_custom_loss">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<CreateCustomLossResponse>() {
  using T = CreateCustomLossResponse;
  static constexpr std::array kFields = {
      required<&T::loss_id>("loss_id"),
      tag<"create_custom_loss">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsRequest>() {
  using T = SaveWeightsRequest;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      nullable<&T::path>("path"),
      nullable<&T::seq_id>("seq_id"),
      nullable<&T::ttl_seconds>("ttl_seconds"),
      defaulted<&T::overwrite>("overwrite"),
      nullable<&T::user_metadata>("user_metadata"),
      tag<"save_weights">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsResponse>() {
  using T = SaveWeightsResponse;
  static constexpr std::array kFields = {
      required<&T::path>("path"),
      optional_tag<&T::has_type, "save_weights">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<LoadWeightsRequest>() {
  using T = LoadWeightsRequest;
  static constexpr std::array kFields = {
      nullable<&T::model_id>("model_id"),
      nullable<&T::seq_id>("seq_id"),
      nullable<&T::session_id>("session_id"),
      nullable<&T::model_seq_id>("model_seq_id"),
      nullable<&T::base_model>("base_model"),
      nullable<&T::user_metadata>("user_metadata"),
      required<&T::path>("path"),
      required<&T::optimizer>("optimizer"),
      nullable<&T::optimizer_config>("optimizer_config"),
      nullable<&T::weights_access_token>("weights_access_token"),
      tag<"load_weights">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<LoadWeightsResponse>() {
  using T = LoadWeightsResponse;
  static constexpr std::array kFields = {
      nullable<&T::path>("path"),
      nullable<&T::model_id>("model_id"),
      optional_tag<&T::has_type, "load_weights">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsForSamplerRequest>() {
  using T = SaveWeightsForSamplerRequest;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      nullable<&T::path>("path"),
      nullable<&T::sampling_session_seq_id>("sampling_session_seq_id"),
      nullable<&T::seq_id>("seq_id"),
      nullable<&T::ttl_seconds>("ttl_seconds"),
      nullable<&T::user_metadata>("user_metadata"),
      tag<"save_weights_for_sampler">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsForSamplerResponse>() {
  using T = SaveWeightsForSamplerResponse;
  static constexpr std::array kFields = {
      required<&T::path>("path"),
      optional_tag<&T::has_type, "save_weights_for_sampler">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsForSamplerResponseInternal>() {
  using T = SaveWeightsForSamplerResponseInternal;
  static constexpr std::array kFields = {
      nullable<&T::path>("path"),
      nullable<&T::sampling_session_id>("sampling_session_id"),
      optional_tag<&T::has_type, "save_weights_for_sampler">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsExternalRequest>() {
  using T = SaveWeightsExternalRequest;
  static constexpr std::array kFields = {
      required<&T::model_id>("model_id"),
      required<&T::path>("path"),
      nullable<&T::seq_id>("seq_id"),
      nullable<&T::ttl_seconds>("ttl_seconds"),
      nullable<&T::age_encryption_recipients>("age_encryption_recipients"),
      tag<"save_weights_external">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsExternalResponse>() {
  using T = SaveWeightsExternalResponse;
  static constexpr std::array kFields = {
      required<&T::path>("path"),
      optional_tag<&T::has_type, "save_weights_external">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SaveWeightsExternalResponseInternal>() {
  using T = SaveWeightsExternalResponseInternal;
  static constexpr std::array kFields = {
      nullable<&T::path>("path"),
      nullable<&T::size_bytes>("size_bytes"),
      optional_tag<&T::has_type, "save_weights_external">(),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ExternalWeightsUrlsResponse>() {
  using T = ExternalWeightsUrlsResponse;
  static constexpr std::array kFields = {
      required<&T::urls>("urls"),
      required<&T::expires>("expires"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ExternalWeightsUploadStartRequest>() {
  using T = ExternalWeightsUploadStartRequest;
  static constexpr std::array kFields = {
      required<&T::base_model>("base_model"),
      required<&T::lora_config>("lora_config"),
      nullable<&T::destination_project_id>("destination_project_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<ExternalWeightsUploadStartResponse>() {
  using T = ExternalWeightsUploadStartResponse;
  static constexpr std::array kFields = {
      required<&T::upload_id>("upload_id"),
      required<&T::urls>("urls"),
      required<&T::expires>("expires"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ExternalWeightsUploadFinishRequest>() {
  using T = ExternalWeightsUploadFinishRequest;
  static constexpr std::array kFields = {required<&T::upload_id>("upload_id")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<ExternalWeightsUploadFinishResponse>() {
  using T = ExternalWeightsUploadFinishResponse;
  static constexpr std::array kFields = {required<&T::tinker_path>("tinker_path")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CheckpointArchiveUrlResponse>() {
  using T = CheckpointArchiveUrlResponse;
  static constexpr std::array kFields = {
      required<&T::url>("url"),
      required<&T::expires>("expires"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CopyWeightsRequest>() {
  using T = CopyWeightsRequest;
  static constexpr std::array kFields = {
      nullable<&T::session_id>("session_id"),
      nullable<&T::model_seq_id>("model_seq_id"),
      nullable<&T::destination_project_id>("destination_project_id"),
      required<&T::source_path>("source_path"),
      nullable<&T::ttl_seconds>("ttl_seconds"),
      nullable<&T::weights_access_token>("weights_access_token"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<CopyWeightsResponse>() {
  using T = CopyWeightsResponse;
  static constexpr std::array kFields = {required<&T::tinker_path>("tinker_path")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<WeightsInfoRequest>() {
  using T = WeightsInfoRequest;
  static constexpr std::array kFields = {required<&T::tinker_path>("tinker_path")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<WeightsInfoResponse>() {
  using T = WeightsInfoResponse;
  static constexpr std::array kFields = {
      required<&T::base_model>("base_model"),
      defaulted<&T::optimizer_config>("optimizer_config"),
      required<&T::is_lora>("is_lora"),
      nullable<&T::lora_rank>("lora_rank"),
      nullable<&T::train_unembed>("train_unembed"),
      nullable<&T::train_mlp>("train_mlp"),
      nullable<&T::train_attn>("train_attn"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SetTtlRequest>() {
  using T = SetTtlRequest;
  static constexpr std::array kFields = {required<&T::ttl_seconds>("ttl_seconds")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

}  // namespace tinker::wire
