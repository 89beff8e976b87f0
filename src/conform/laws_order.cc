#include <array>

#include "conform/lab.h"
#include "tinker/types/model.h"
#include "tinker/types/sampling_session.h"

// Sequence numbers: order, duplicates, gaps (PROTOCOL 10).

namespace tinker::conform {

namespace {

ForwardBackwardRequest once(double weight = 1.0) {
  return {.data = {weighted(weight)}};
}

/// How far the logprobs moved, from a fresh model's.
Result<Numbers> moved(Trainee& model) {
  TINKER_TRY(const auto before, fresh_logprobs(model.probe()));
  TINKER_TRY(const auto after, model.logprobs(reference_text()));
  return difference(after, before);
}

/// Steps on what the model has gathered, and compares with the effect of these gradients.
Evidence expect_effect_of(Trainee& model, std::vector<ForwardBackwardRequest> gradients) {
  Probe& probe = model.probe();
  TINKER_TRY(const auto params, descent(probe));
  TINKER_TRY(model.step(params));
  TINKER_TRY(const auto found, moved(model));
  TINKER_TRY(const auto expected, effect(probe, std::move(gradients)));
  TINKER_TRY(expect_same_effect("the step after it", found, expected, probe.tolerance()));
  return held();
}

Evidence first_chunk_last(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  const auto first = model.take_seq();
  std::vector<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    TINKER_TRY(auto id, model.submit(once()));
    ids.push_back(std::move(id));
  }
  ForwardBackwardRequest last = once();
  last.seq_id = first;
  TINKER_TRY(auto id, model.submit(last));
  ids.push_back(std::move(id));
  for (const auto& each : ids) TINKER_TRY(probe.proto_result<ForwardBackwardOutput>(each));
  return expect_effect_of(model, {once(3.0)});
}

Evidence pipelined(Probe& probe) {
  TINKER_TRY(auto params, descent(probe));
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto gradient, model.submit(once()));
  TINKER_TRY(const auto step, model.submit(params));
  TINKER_TRY(const auto pass, model.submit({.data = {weighted(1.0)}, .forward_only = true}));
  TINKER_TRY(const auto output, probe.proto_result<ForwardBackwardOutput>(pass));
  TINKER_TRY(const auto after, output_of(output, 0));
  TINKER_TRY(probe.json_result<OptimStepResponse>(step));
  TINKER_TRY(probe.proto_result<ForwardBackwardOutput>(gradient));
  TINKER_TRY(const auto before, fresh_logprobs(probe));
  TINKER_TRY(const auto expected, effect(probe, {once()}));
  TINKER_TRY(expect_same_effect("a forward pass sent right behind a step",
                                difference(after, before),
                                expected,
                                probe.tolerance()));
  return held();
}

/// Posts the same request twice; both answers must name one operation.
template <typename Post>
Result<std::string> post_twice(Probe& probe, Post post) {
  TINKER_TRY(const auto first_answer, post());
  TINKER_TRY(const auto second_answer, post());
  TINKER_TRY(auto first, probe.accepted(first_answer));
  TINKER_TRY(const auto second, probe.accepted(second_answer));
  if (first.request_id != second.request_id ||
      first.sample_sequence_ids != second.sample_sequence_ids) {
    return broken(base::concat(first_answer.to_string(),
                               ", then for the same body ",
                               second_answer.to_string(),
                               ", expected the same answer"));
  }
  return std::move(first.request_id);
}

Evidence duplicate_gradient(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest request = once();
  request.seq_id = model.take_seq();
  TINKER_TRY(const auto id, post_twice(probe, [&] { return model.post(request); }));
  TINKER_TRY(probe.proto_result<ForwardBackwardOutput>(id));
  return expect_effect_of(model, {once()});
}

Evidence duplicate_step(Probe& probe) {
  TINKER_TRY(const auto params, descent(probe));
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(model.run(once()));
  // Momentum makes a step that is done twice go on.
  OptimStepRequest request = {.optim_params = params, .seq_id = model.take_seq()};
  std::get<AdamParams>(request.optim_params).beta1 = 0.9;
  TINKER_TRY(const auto id, post_twice(probe, [&] { return model.post(request); }));
  TINKER_TRY(probe.json_result<OptimStepResponse>(id));
  TINKER_TRY(const auto found, moved(model));
  TINKER_TRY(const auto expected, effect(probe, {once()}));
  TINKER_TRY(expect_same_effect("a step sent twice", found, expected, probe.tolerance()));
  return held();
}

Evidence reused_number(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest request = once();
  request.seq_id = model.take_seq();
  TINKER_TRY(model.run(request));
  request.data = {weighted(2.0)};
  TINKER_TRY(auto evidence, refused_or_failed(probe, model.post(request)));
  TINKER_TRY(expect_effect_of(model, {once()}));
  return evidence;
}

/// The result of an operation that must not wait for another one.
Result<Answer> settle_soon(Probe& probe, const std::string& request_id, std::string_view what) {
  constexpr std::chrono::seconds kSoon{20};
  const auto started = std::chrono::steady_clock::now();
  TINKER_TRY(auto answer, probe.settle(request_id));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  if (took <= kSoon) return answer;
  return broken(
      base::concat(what, " took ", took.count(), " s, expected it within ", kSoon.count()));
}

Evidence gap(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(model.run(once()));
  (void)model.take_seq();  // never sent
  TINKER_TRY(const auto id, model.submit(AdamParams{.learning_rate = 0}));
  TINKER_TRY(settle_soon(probe, id, "an optim_step above a number that was never sent"));
  TINKER_TRY(probe.json_result<OptimStepResponse>(id));
  return held();
}

Evidence late_number(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest late = once();
  late.seq_id = model.take_seq();
  TINKER_TRY(model.step({.learning_rate = 0}));
  TINKER_TRY(auto evidence, refused_or_failed(probe, model.post(late)));
  TINKER_TRY(model.run(once()));
  TINKER_TRY(expect_effect_of(model, {once()}));
  return evidence;
}

Evidence refused_number(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest wrong = once();
  wrong.loss_fn = OpenEnum<LossFn>::parse("no_such_loss");
  TINKER_TRY(const auto refusal, model.post(wrong));
  TINKER_TRY(const auto id, model.submit(once()));
  TINKER_TRY(settle_soon(probe, id, "a forward_backward behind a refused one"));
  TINKER_TRY(expect_effect_of(model, {once()}));
  return refusal.to_string();
}

Evidence models_are_apart(Probe& probe) {
  TINKER_TRY(auto held_up, Trainee::create(probe));
  (void)held_up.take_seq();
  TINKER_TRY(held_up.submit(once()));
  TINKER_TRY(auto other, Trainee::create(probe));
  TINKER_TRY(const auto id, other.submit(once()));
  TINKER_TRY(settle_soon(probe, id, "a forward_backward beside a model that waits"));
  return expect_effect_of(other, {once()});
}

Evidence create_model_again(Probe& probe) {
  const CreateModelRequest request = {.session_id = probe.session_id(),
                                      .model_seq_id = probe.next_model(),
                                      .base_model = probe.base_model(),
                                      .lora_config = LoraConfig{.rank = 8, .seed = Seed(1)}};
  TINKER_TRY(const auto id,
             post_twice(probe, [&] { return probe.post("/api/v1/create_model", request); }));
  TINKER_TRY(const auto made, probe.json_result<CreateModelResponse>(id));
  probe.remember_model(made.model_id);
  return made.model_id;
}

Evidence sampling_session_again(Probe& probe) {
  const CreateSamplingSessionRequest request = {.session_id = probe.session_id(),
                                                .sampling_session_seq_id = probe.next_sampler(),
                                                .base_model = probe.base_model()};
  const auto post = [&] {
    return probe.read<CreateSamplingSessionResponse>(
        probe.post("/api/v1/create_sampling_session", request));
  };
  TINKER_TRY(const auto first, post());
  TINKER_TRY(const auto second, post());
  if (first.sampling_session_id != second.sampling_session_id) {
    return broken(base::concat("the same create_sampling_session gave '",
                               first.sampling_session_id,
                               "', then '",
                               second.sampling_session_id,
                               "'"));
  }
  return first.sampling_session_id;
}

Evidence sample_again(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  const auto request = sampler.complete({.num_samples = 2,
                                         .prompt = ModelInput::from_tokens(reference_text()),
                                         .sampling_params = {.max_tokens = 2}});
  TINKER_TRY(const auto id,
             post_twice(probe, [&] { return probe.post("/api/v1/asample", request); }));
  TINKER_TRY(probe.proto_result<SampleResponse>(id));
  return id;
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "order.first_chunk_last",
     .sentence = "Chunks of a batch may arrive before the first one; all count once",
     .check = first_chunk_last},
    {.id = "order.pipelined",
     .sentence = "Requests sent without waiting are carried out in the order of their numbers",
     .check = pipelined},
    {.id = "order.duplicate_gradient",
     .sentence = "A forward_backward sent twice is one: same request id, one gradient",
     .check = duplicate_gradient},
    {.id = "order.duplicate_step",
     .sentence = "An optim_step sent twice is one: same request id, one step",
     .check = duplicate_step},
    {.id = "order.reused_number",
     .sentence = "A number that comes again with another body is refused, and not done",
     .check = reused_number},
    {.id = "order.gap",
     .sentence = "An optim_step does not wait for a number that never comes",
     .check = gap},
    {.id = "order.late_number",
     .sentence = "A number below one already done is refused, and not done",
     .check = late_number},
    {.id = "order.refused_number",
     .sentence = "A refused request uses up its number: the next one does not wait",
     .check = refused_number},
    {.id = "order.models_are_apart",
     .sentence = "A model that waits for a number holds up no other",
     .check = models_are_apart},
    {.id = "order.create_model_again",
     .sentence = "create_model sent twice makes one model",
     .check = create_model_again},
    {.id = "order.sampling_session_again",
     .sentence = "create_sampling_session sent twice makes one",
     .check = sampling_session_again},
    {.id = "order.sample_again",
     .sentence = "asample sent twice is one: same request id, same sequence ids",
     .check = sample_again},
});

}  // namespace

std::span<const Law> order_laws() {
  return kLaws;
}

}  // namespace tinker::conform
