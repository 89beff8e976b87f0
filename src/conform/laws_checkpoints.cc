#include <array>

#include "conform/lab.h"
#include "conform/stored.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/weights.h"

// Weights that are saved, loaded and sampled from (PROTOCOL 9.14-9.17).

namespace tinker::conform {

namespace {

// The size of a small gradient. A power of two scales it without rounding: AdamW makes a whole step
// of rounding errors where a gradient is 0 but for them.
constexpr double kSmall = 0.0625;

/// A model that has made a step of AdamW, so that weights and optimizer both matter.
Result<Trainee> stepped(Probe& probe) {
  TINKER_TRY(const auto params, adam(probe));
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(model.run({.data = {weighted(1.0)}}));
  TINKER_TRY(model.step(params));
  return model;
}

/// The logprobs after a step on a small gradient: they show what the moments were before it.
Result<Numbers> after_small_step(Trainee& model) {
  TINKER_TRY(const auto params, adam(model.probe()));
  TINKER_TRY(model.run({.data = {weighted(kSmall)}}));
  TINKER_TRY(model.step(params));
  return model.logprobs(reference_text());
}

// ---- weights and optimizer --------------------------------------------------------------------

Evidence paths(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto weights, model.save("step-1.a_B"));
  TINKER_TRY(const auto sampler, model.save_for_sampler("step-1.a_B"));
  const auto expected = base::concat("tinker://", model.id(), "/weights/step-1.a_B");
  const auto sampler_expected =
      base::concat("tinker://", model.id(), "/sampler_weights/step-1.a_B");
  if (weights != expected || sampler != sampler_expected) {
    return broken(base::concat("saves gave '",
                               weights,
                               "' and '",
                               sampler,
                               "', expected '",
                               expected,
                               "' and '",
                               sampler_expected,
                               "'"));
  }
  TINKER_TRY(listed(probe, weights));
  TINKER_TRY(listed(probe, sampler));
  return held();
}

Evidence save_and_load(Probe& probe) {
  TINKER_TRY(auto model, stepped(probe));
  TINKER_TRY(const auto saved, model.logprobs(reference_text()));
  TINKER_TRY(const auto path, model.save("a"));
  TINKER_TRY(after_small_step(model));
  TINKER_TRY(auto other, Trainee::create(probe, 9));
  TINKER_TRY(other.load(path, false));
  TINKER_TRY(const auto loaded, other.logprobs(reference_text()));
  TINKER_TRY(expect_same(probe, "logprobs after loading", loaded, saved));
  return base::concat("largest difference ", largest(difference(loaded, saved)));
}

Evidence resume(Probe& probe) {
  TINKER_TRY(auto model, stepped(probe));
  TINKER_TRY(const auto path, model.save("a"));
  TINKER_TRY(const auto went_on, after_small_step(model));
  TINKER_TRY(auto with, Trainee::create(probe, 9));
  TINKER_TRY(with.load(path, true));
  TINKER_TRY(const auto resumed, after_small_step(with));
  TINKER_TRY(expect_same(
      probe, "logprobs of a run that was resumed with its optimizer", resumed, went_on));
  return base::concat("largest difference ", largest(difference(resumed, went_on)));
}

Evidence weights_only(Probe& probe) {
  // A fresh optimizer's first step does not depend on the size of the gradient; the saved one's
  // second step on a small gradient is small.
  TINKER_TRY(auto model, stepped(probe));
  TINKER_TRY(const auto path, model.save("a"));
  TINKER_TRY(const auto before, model.logprobs(reference_text()));
  std::array<Numbers, 2> after;
  for (std::size_t i = 0; i < after.size(); ++i) {
    TINKER_TRY(const auto params, adam(probe));
    TINKER_TRY(auto fresh, Trainee::create(probe));
    TINKER_TRY(fresh.load(path, false));
    TINKER_TRY(fresh.run({.data = {weighted(i == 0 ? kSmall : 1.0)}}));
    TINKER_TRY(fresh.step(params));
    TINKER_TRY(after[i], fresh.logprobs(reference_text()));
  }
  TINKER_TRY(expect_same_effect("a small first step after loading weights without their optimizer",
                                difference(after[0], before),
                                difference(after[1], before),
                                probe.tolerance()));
  return held();
}

Evidence load_drops_gradients(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto path, model.save("a"));
  TINKER_TRY(model.run({.data = {weighted(1.0)}}));
  TINKER_TRY(model.load(path, true));
  TINKER_TRY(const auto params, descent(probe));
  TINKER_TRY(model.step(params));
  TINKER_TRY(const auto after, model.logprobs(reference_text()));
  TINKER_TRY(const auto fresh, fresh_logprobs(probe));
  TINKER_TRY(expect_same(probe, "logprobs after gradient, load and step", after, fresh));
  return held();
}

Evidence create_via_load(Probe& probe) {
  if (!probe.config().create_model_via_load_weights) {
    return undecided("flag create_model_via_load_weights is off");
  }
  TINKER_TRY(auto model, stepped(probe));
  TINKER_TRY(const auto saved, model.logprobs(reference_text()));
  TINKER_TRY(const auto path, model.save("a"));
  const auto number = probe.next_model();
  const LoadWeightsRequest request = {
      .session_id = probe.session_id(), .model_seq_id = number, .path = path, .optimizer = true};
  TINKER_TRY(const auto handle, probe.submit("/api/v1/load_weights", request));
  TINKER_TRY(const auto made, probe.json_result<LoadWeightsResponse>(handle.request_id));
  const auto id = base::concat(probe.session_id(), ":train:", number);
  probe.remember_model(id);
  if (made.model_id.value_or(id) != id) {
    return broken(base::concat("load_weights made '", *made.model_id, "', expected '", id, "'"));
  }
  Trainee loaded(probe, id, 1);
  TINKER_TRY(const auto found, loaded.logprobs(reference_text()));
  TINKER_TRY(expect_same(probe, "logprobs of a model created by load_weights", found, saved));
  return held();
}

// ---- sampling from what is stored -------------------------------------------------------------

Evidence sample_from(Probe& probe) {
  TINKER_TRY(auto model, stepped(probe));
  TINKER_TRY(const auto expected, model.logprobs(reference_text()));
  TINKER_TRY(const auto path, model.save_for_sampler("a"));
  TINKER_TRY(after_small_step(model));
  TINKER_TRY(auto sampler, Sampler::of_path(probe, path));
  TINKER_TRY(const auto found, sampler.prompt_logprobs(reference_text()));
  TINKER_TRY(expect_same(probe, "logprobs of a sampler checkpoint", found, expected));
  return held();
}

Evidence sample_from_training(Probe& probe) {
  TINKER_TRY(auto model, stepped(probe));
  TINKER_TRY(const auto expected, model.logprobs(reference_text()));
  TINKER_TRY(const auto path, model.save("a"));
  TINKER_TRY(auto sampler, Sampler::of_path(probe, path));
  TINKER_TRY(const auto found, sampler.prompt_logprobs(reference_text()));
  TINKER_TRY(expect_same(probe, "logprobs of a sampler of training weights", found, expected));
  return held();
}

Evidence ephemeral(Probe& probe) {
  TINKER_TRY(auto model, stepped(probe));
  TINKER_TRY(Sampler::of(model));
  TINKER_TRY(const auto list, list_of_run(probe, model.id()));
  if (list.checkpoints.empty()) return held();
  return broken(base::concat("after a save for sampling without a name the run lists '",
                             list.checkpoints[0].tinker_path,
                             "', expected nothing"));
}

Evidence get_sampler(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto path, model.save_for_sampler("a"));
  TINKER_TRY(auto sampler, Sampler::of_path(probe, path));
  TINKER_TRY(const auto answer, probe.get("/api/v1/samplers/" + sampler.id()));
  TINKER_TRY(const auto found, probe.read<GetSamplerResponse>(answer));
  if (found.sampler_id == sampler.id() && found.base_model == probe.base_model() &&
      found.model_path == path) {
    return held();
  }
  return broken(base::concat(answer.to_string(),
                             ", expected sampler_id '",
                             sampler.id(),
                             "', base_model '",
                             probe.base_model(),
                             "', model_path '",
                             path,
                             "'"));
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "checkpoints.paths",
     .sentence = "Saves give tinker://RUN/weights/NAME and /sampler_weights/NAME, which may "
                 "share a name, and are listed",
     .check = paths},
    {.id = "checkpoints.save_and_load",
     .sentence = "Loaded weights are the saved ones",
     .check = save_and_load},
    {.id = "checkpoints.resume",
     .sentence = "A run resumed with its optimizer goes on as it would have",
     .check = resume},
    {.id = "checkpoints.weights_only",
     .sentence = "Weights loaded without their optimizer start with a new one",
     .check = weights_only},
    {.id = "checkpoints.load_drops_gradients",
     .sentence = "Loading drops gradients that no step has used",
     .check = load_drops_gradients},
    {.id = "checkpoints.create_via_load",
     .sentence = "load_weights with a session makes a model",
     .check = create_via_load},
    {.id = "checkpoints.sample_from",
     .sentence = "A sampler of a checkpoint has its weights",
     .check = sample_from},
    {.id = "checkpoints.sample_from_training",
     .sentence = "A sampler may be made of training weights",
     .check = sample_from_training},
    {.id = "checkpoints.ephemeral",
     .sentence = "A save for sampling without a name leaves no checkpoint",
     .check = ephemeral},
    {.id = "checkpoints.get_sampler",
     .sentence = "GET samplers/ID knows model and path",
     .check = get_sampler},
});

}  // namespace

std::span<const Law> checkpoints_laws() {
  return kLaws;
}

}  // namespace tinker::conform
