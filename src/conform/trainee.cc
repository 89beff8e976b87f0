#include "conform/trainee.h"

#include "tinker/types/model.h"
#include "tinker/types/weights.h"

namespace tinker::conform {

Result<Trainee> Trainee::create(Probe& probe, std::int64_t seed) {
  const CreateModelRequest request = {.session_id = probe.session_id(),
                                      .model_seq_id = probe.next_model(),
                                      .base_model = probe.base_model(),
                                      .lora_config = LoraConfig{.rank = 8, .seed = Seed(seed)}};
  TINKER_TRY(const auto handle, probe.submit("/api/v1/create_model", request));
  TINKER_TRY(auto made, probe.json_result<CreateModelResponse>(handle.request_id));
  probe.remember_model(made.model_id);
  return Trainee(probe, std::move(made.model_id), 1);
}

Result<Answer> Trainee::post(ForwardBackwardRequest request) {
  if (request.model_id.empty()) request.model_id = id_;
  if (request.seq_id == 0) request.seq_id = take_seq();
  for (const auto& datum : request.data) {
    probe_->spent().trained_tokens += datum.model_input.length().value_or(0);
  }
  TINKER_TRY(auto body, wire::encode_proto(request));
  auto answer = probe_->send(
      {.path = "/api/v1/forward_backward", .body = std::move(body), .content_type = kProto});
  if (answer) {
    answer->question = base::concat("POST /api/v1/forward_backward <",
                                    request.data.size(),
                                    " data, ",
                                    request.loss_fn.text(),
                                    ", seq_id ",
                                    request.seq_id,
                                    ">");
  }
  return answer;
}

Result<std::string> Trainee::submit(ForwardBackwardRequest request) {
  TINKER_TRY(auto handle, probe_->accepted(post(std::move(request))));
  return std::move(handle.request_id);
}

Result<ForwardBackwardOutput> Trainee::run(ForwardBackwardRequest request) {
  TINKER_TRY(const auto id, submit(std::move(request)));
  return probe_->proto_result<ForwardBackwardOutput>(id);
}

Result<Answer> Trainee::post(OptimStepRequest request) {
  if (request.model_id.empty()) request.model_id = id_;
  if (!request.seq_id) request.seq_id = take_seq();
  return probe_->post("/api/v1/optim_step", request);
}

Result<std::string> Trainee::submit(const AdamParams& params) {
  TINKER_TRY(auto handle, probe_->accepted(post(OptimStepRequest{.optim_params = params})));
  return std::move(handle.request_id);
}

Result<OptimStepResponse> Trainee::step(const AdamParams& params) {
  TINKER_TRY(const auto id, submit(params));
  return probe_->json_result<OptimStepResponse>(id);
}

Result<Numbers> Trainee::logprobs(const std::vector<std::int32_t>& text) {
  TINKER_TRY(const auto output, run({.data = {Datum::next_token(text)}, .forward_only = true}));
  return output_of(output, 0);
}

Result<std::string> Trainee::save(std::string_view name, bool overwrite) {
  const SaveWeightsRequest request = {
      .model_id = id_, .path = std::string(name), .seq_id = take_seq(), .overwrite = overwrite};
  TINKER_TRY(const auto handle, probe_->submit("/api/v1/save_weights", request));
  TINKER_TRY(auto saved, probe_->json_result<SaveWeightsResponse>(handle.request_id));
  probe_->remember_checkpoint(saved.path);
  return std::move(saved.path);
}

Result<std::string> Trainee::save_for_sampler(std::string_view name) {
  const SaveWeightsForSamplerRequest request = {
      .model_id = id_, .path = std::string(name), .seq_id = take_seq()};
  TINKER_TRY(const auto handle, probe_->submit("/api/v1/save_weights_for_sampler", request));
  TINKER_TRY(auto saved,
             probe_->json_result<SaveWeightsForSamplerResponseInternal>(handle.request_id));
  if (!saved.path) return broken("save_weights_for_sampler with a name gave no path");
  probe_->remember_checkpoint(*saved.path);
  return *std::move(saved.path);
}

Result<void> Trainee::load(const std::string& path, bool with_optimizer) {
  const LoadWeightsRequest request = {
      .model_id = id_, .seq_id = take_seq(), .path = path, .optimizer = with_optimizer};
  TINKER_TRY(const auto handle, probe_->submit("/api/v1/load_weights", request));
  TINKER_TRY(probe_->json_result<LoadWeightsResponse>(handle.request_id));
  return {};
}

Result<Numbers> output_of(const ForwardBackwardOutput& output,
                          std::size_t datum,
                          std::string_view name) {
  if (datum >= output.loss_fn_outputs.size()) {
    return broken(base::concat(
        "expected outputs of datum ", datum, ", found outputs of ", output.loss_fn_outputs.size()));
  }
  const auto& named = output.loss_fn_outputs[datum];
  const auto found = named.find(name);
  if (found == named.end())
    return broken(base::concat("datum ", datum, " has no output '", name, "'"));
  if (found->second.dtype() != TensorDtype::float32) {
    return broken(base::concat("output '", name, "' is not float32"));
  }
  const auto& values = found->second.floats();
  return Numbers(values.begin(), values.end());
}

}  // namespace tinker::conform
