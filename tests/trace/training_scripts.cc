#include "scripts.h"

namespace tinker::trace {
namespace {

/// One batch and one step, both under way before either is awaited.
void step(const TrainingClient& training, std::int32_t count) {
  auto gradients = training.forward_backward(data(count), LossFn::cross_entropy);
  auto update = training.optim_step(AdamParams());
  gradients.get().value();
  update.get().value();
}

template <std::int32_t kCount>
void train_steps() {
  const auto service = connect();
  const auto training = trainer(service);
  step(training, kCount);
  step(training, 1);
  finish(service);
}

void train_forward() {
  const auto service = connect();
  const auto training = trainer(service);
  training.forward(data(2), LossFn::cross_entropy).get().value();
  training.forward_backward(data(2), LossFn::cross_entropy).get().value();
  training.forward({policy_datum()}, LossFn::ppo, {{"clip_low_threshold", 0.9}}).get().value();
  finish(service);
}

void train_model_options() {
  const auto service = connect();
  trainer(service,
          {.rank = 8,
           .seed = 42,
           .train_unembed = false,
           .user_metadata = StringMap{{"stage", "sft"}}});
  trainer(service, {.rank = 16, .seed = -3, .train_mlp = false, .train_attn = false});
  trainer(service).get_info().get().value();
  finish(service);
}

void train_losses() {
  const auto service = connect();
  const auto training = trainer(service);
  training.forward_backward(data(1), LossFn::cross_entropy, {}).get().value();
  training.forward_backward({policy_datum()}, LossFn::importance_sampling).get().value();
  const LossFnConfig config = {
      {"clip_low_threshold", 0.75}, {"clip_high_threshold", 2.0}, {"mode", "token"}};
  training.forward_backward({policy_datum()}, LossFn::ppo, config).get().value();
  finish(service);
}

Datum matrix() {
  return {
      .model_input = text({65, 66}),
      .loss_fn_inputs = {{"target_tokens",
                          TensorData(Buffer(std::vector<std::int64_t>{66, 67, 67, 68}),
                                     TensorData::Shape{2, 2})},
                         {"weights",
                          TensorData(Buffer(std::vector<float>{0.5F, 0.25F, 1.0F, -0.0F}),
                                     TensorData::Shape{2, 2})}},
  };
}

Datum sparse() {
  const CsrIndices places = {.crow = std::vector<std::int64_t>{0, 1, 3},
                             .col = std::vector<std::int64_t>{0, 2, 5}};
  return {
      .model_input = text({65, 66}),
      .loss_fn_inputs = {{"target_tokens",
                          TensorData(Buffer(std::vector<std::int64_t>{66, 67, 68}),
                                     TensorData::Shape{2, 8},
                                     places)},
                         {"weights",
                          TensorData(Buffer(std::vector<float>{0.5F, 1.5F, -2.0F}),
                                     TensorData::Shape{2, 8},
                                     places)}},
  };
}

Datum picture() {
  using namespace std::string_literals;
  return {
      .model_input = {.chunks = {EncodedTextChunk{.tokens = {65}},
                                 ImageChunk{.data = "\x89PNG\r\n\x1a\n"s,
                                            .format = ImageFormat::png,
                                            .expected_tokens = 2},
                                 ImageChunk{.data = "\xff\xd8\xff\0"s,
                                            .format = ImageFormat::jpeg,
                                            .expected_tokens = 1}}},
      .loss_fn_inputs = {{"target_tokens", ints({66, 67, 68, 69})},
                         {"weights", floats({0.0F, 0.0F, 0.0F, 1.0F})}},
  };
}

void train_inputs() {
  const auto service = connect();
  const auto training = trainer(service);
  const Datum empty = {.model_input = text({}), .loss_fn_inputs = {{"target_tokens", ints({})}}};
  training.forward_backward({matrix(), sparse(), picture(), empty}, LossFn::cross_entropy)
      .get()
      .value();
  finish(service);
}

void train_provenance() {
  using Source = ProvenanceSpan::Source;
  const auto service = connect();
  const auto training = trainer(service);
  const Datum example = {
      .model_input = text({65, 66, 67}),
      .loss_fn_inputs = {{"target_tokens", ints({66, 67, 68})}},
      .model_input_spans = {{Source::prompt_tokens, "sequence-1", 0, 2},
                            {Source::sampled_tokens, "sequence-1", 5, 1}},
      .loss_fn_input_spans = {{Source::sampled_tokens, "sequence-2", 1, 3}},
  };
  training.forward_backward({example, datum(65)}, LossFn::cross_entropy).get().value();
  finish(service);
}

void train_optimizers() {
  const auto service = connect();
  const auto adam = trainer(service, {.optimizer = AdamOptimizerConfig()});
  adam.optim_step(AdamParams{.learning_rate = 2e-4,
                             .beta1 = 0.8,
                             .beta2 = 0.99,
                             .eps = 1e-8,
                             .weight_decay = 0.01,
                             .grad_clip_norm = 1.0})
      .get()
      .value();
  const auto dimuon = trainer(service, {.optimizer = DimuonOptimizerConfig()});
  dimuon.optim_step(DimuonParams{.learning_rate = 0.02}).get().value();
  dimuon.optim_step(DimuonParams{.learning_rate = 0.0, .grad_clip_norm = 0.5, .beta1 = 0.95})
      .get()
      .value();
  const auto other =
      trainer(service,
              {.optimizer = OtherOptimizerConfig{
                   .type = "sophia", .members = {{"rho", 0.04}, {"warm", true}, {"name", "x"}}}});
  other
      .optim_step(
          OtherOptimParams{.type = "sophia", .members = {{"lr", 0.1}, {"k", Json::Array{1, 2}}}})
      .get()
      .value();
  finish(service);
}

void train_poll_retries() {
  const auto service = connect();
  const auto training = trainer(service);
  training.forward_backward(data(1), LossFn::cross_entropy).get().value();
  training.optim_step(AdamParams()).get().value();
  finish(service);
}

void batch_fails() {
  const auto service = connect();
  const auto training = trainer(service);
  expect_error(training.forward_backward(data(1), LossFn::cross_entropy).get());
  finish(service);
}

void train_failed_future() {
  const auto service = connect();
  const auto training = trainer(service);
  expect_error(training.forward_backward(data(1), LossFn::cispo).get());
  training.optim_step(AdamParams{.learning_rate = 1e-3}).get().value();
  finish(service);
}

void train_failed_server() {
  const auto service = connect();
  const auto training = trainer(service);
  expect_error(training.optim_step(AdamParams()).get());
  finish(service);
}

void train_submission_refused() {
  const auto service = connect();
  const auto training = trainer(service);
  expect_error(training.forward_backward(data(1), LossFn::cross_entropy).get());
  training.optim_step(AdamParams()).get().value();
  finish(service);
}

void train_model_refused() {
  const auto service = connect();
  expect_error(service.create_lora_training_client(kBaseModel).get());
  trainer(service);
  finish(service);
}

}  // namespace

std::vector<Script> training_scripts() {
  return {
      {"train_one_chunk", train_steps<1>},
      {"train_two_chunks_parallel", train_steps<2>},
      {"train_five_chunks_parallel", train_steps<5>},
      {"train_two_chunks_serial", train_steps<2>},
      {"train_five_chunks_serial", train_steps<5>},
      {"train_chunks_by_bytes", train_steps<4>},
      {"train_compressed", train_steps<2>},
      {"train_forward", train_forward},
      {"train_model_options", train_model_options},
      {"train_losses", train_losses},
      {"train_inputs", train_inputs},
      {"train_provenance", train_provenance},
      {"train_optimizers", train_optimizers},
      {"train_submission_retries", train_steps<1>},
      {"train_submission_rounds", train_steps<1>},
      {"train_poll_retries", train_poll_retries},
      {"train_stale_connection", train_steps<1>},
      {"train_poll_bad_requests", batch_fails},
      {"train_poll_gone", batch_fails},
      {"train_poll_refused", batch_fails},
      {"train_failed_future", train_failed_future},
      {"train_failed_server", train_failed_server},
      {"train_submission_refused", train_submission_refused},
      {"train_model_refused", train_model_refused},
  };
}

}  // namespace tinker::trace
