#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "conform/lab.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/weights.h"

// Saving, loading, and what the server says about what is stored (PROTOCOL 9.14-9.30).

namespace tinker::conform {

namespace {

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
  TINKER_TRY(model.run({.data = {weighted(0.05)}}));
  TINKER_TRY(model.step(params));
  return model.logprobs(reference_text());
}

std::string checkpoint_url(const std::string& tinker_path, std::string_view suffix = "") {
  const auto path = TinkerPath::parse(tinker_path);
  if (!path) return "/api/v1/training_runs/" + tinker_path;
  return base::concat("/api/v1/training_runs/",
                      path->training_run_id,
                      "/checkpoints/",
                      path->checkpoint_id(),
                      suffix);
}

Result<Answer> call(Probe& probe, http::Method method, std::string path, std::string body = "") {
  return probe.send({.method = method, .path = std::move(path), .body = std::move(body)});
}

Result<CheckpointsListResponse> list_of_run(Probe& probe, const std::string& run) {
  return probe.read<CheckpointsListResponse>(
      probe.get(base::concat("/api/v1/training_runs/", run, "/checkpoints")));
}

/// The entry of a run's list, or nothing.
Result<std::optional<Checkpoint>> entry_of(Probe& probe, const std::string& tinker_path) {
  TINKER_TRY(const auto path, TinkerPath::parse(tinker_path));
  TINKER_TRY(const auto list, list_of_run(probe, path.training_run_id));
  for (const auto& each : list.checkpoints) {
    if (each.tinker_path == tinker_path) return std::optional(each);
  }
  return std::optional<Checkpoint>();
}

Result<Checkpoint> listed(Probe& probe, const std::string& tinker_path) {
  TINKER_TRY(auto entry, entry_of(probe, tinker_path));
  if (entry) return *std::move(entry);
  return broken(base::concat("the checkpoints of the run lack '", tinker_path, "'"));
}

Result<void> expect_ok(const Result<Answer>& answer) {
  if (!answer) return answer.error();
  if (answer->ok()) return {};
  return broken(answer->to_string() + ", expected 200");
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
    TINKER_TRY(fresh.run({.data = {weighted(i == 0 ? 0.05 : 1.0)}}));
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

// ---- names ------------------------------------------------------------------------------------

Result<Answer> post_save(Trainee& model,
                         std::string_view name,
                         std::optional<std::int64_t> ttl = {}) {
  return model.probe().post("/api/v1/save_weights",
                            SaveWeightsRequest{.model_id = model.id(),
                                               .path = std::string(name),
                                               .seq_id = model.take_seq(),
                                               .ttl_seconds = ttl});
}

Evidence taken_name(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(model.save("a"));
  return failed_as_users(probe, post_save(model, "a"));
}

Evidence overwrite(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(model.save("a"));
  TINKER_TRY(const auto params, adam(probe));
  TINKER_TRY(model.run({.data = {weighted(1.0)}}));
  TINKER_TRY(model.step(params));
  TINKER_TRY(const auto newer, model.logprobs(reference_text()));
  TINKER_TRY(const auto path, model.save("a", true));
  TINKER_TRY(auto other, Trainee::create(probe));
  TINKER_TRY(other.load(path, false));
  TINKER_TRY(const auto found, other.logprobs(reference_text()));
  TINKER_TRY(expect_same(probe, "logprobs of a checkpoint that was overwritten", found, newer));
  return held();
}

Evidence bad_names(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  for (const std::string_view name : {"", ".", "..", "a/b", "a\\b", "a%2fb", "a?b", "a#b"}) {
    const auto answer = post_save(model, name);
    if (const auto refusal = failed_as_users(probe, answer); !refusal) {
      if (answer && answer->ok())
        probe.remember_checkpoint(base::concat("tinker://", model.id(), "/weights/", name));
      return refusal.error().with_context(base::concat("name '", name, "'"));
    }
  }
  TINKER_TRY(const auto list, list_of_run(probe, model.id()));
  if (list.checkpoints.empty()) return held();
  return broken("a refused name is listed: " + list.checkpoints[0].tinker_path);
}

Evidence unknown_path(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  const LoadWeightsRequest request = {
      .model_id = model.id(),
      .seq_id = model.take_seq(),
      .path = base::concat("tinker://", model.id(), "/weights/none"),
      .optimizer = false};
  return refused_or_failed(probe, probe.post("/api/v1/load_weights", request));
}

// ---- lists and what is done to entries --------------------------------------------------------

Evidence lists(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto path, model.save("a"));
  TINKER_TRY(const auto entry, listed(probe, path));
  if (entry.checkpoint_id != "weights/a" || !(entry.checkpoint_type == CheckpointType::training) ||
      entry.is_public) {
    return broken(base::concat("the entry of '",
                               path,
                               "' has checkpoint_id '",
                               entry.checkpoint_id,
                               "' and type '",
                               entry.checkpoint_type.text(),
                               "', expected 'weights/a', ",
                               "'training', private"));
  }
  TINKER_TRY(
      const auto all,
      probe.read<CheckpointsListResponse>(probe.get("/api/v1/checkpoints?limit=100&offset=0")));
  const auto is_it = [&](const Checkpoint& each) { return each.tinker_path == path; };
  if (std::ranges::none_of(all.checkpoints, is_it)) {
    return broken(base::concat("GET checkpoints lacks the newest one, '", path, "'"));
  }
  const auto is_older = [](const Checkpoint& a, const Checkpoint& b) {
    return a.time.instant() < b.time.instant();
  };
  if (std::ranges::adjacent_find(all.checkpoints, is_older) != all.checkpoints.end()) {
    return broken("GET checkpoints lists an older checkpoint before a newer one");
  }
  TINKER_TRY(const auto run,
             probe.read<TrainingRun>(probe.get(
                 base::concat("/api/v1/training_runs/", model.id(), "?access_scope=owned"))));
  if (run.training_run_id != model.id() || run.base_model != probe.base_model() ||
      !run.last_checkpoint || run.last_checkpoint->tinker_path != path) {
    return broken(base::concat("GET training_runs/",
                               model.id(),
                               " does not name its model '",
                               probe.base_model(),
                               "' and its last checkpoint '",
                               path,
                               "'"));
  }
  return held();
}

Evidence pages(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  const auto page = [&](std::int64_t offset) {
    return probe.read<TrainingRunsResponse>(probe.get(
        base::concat("/api/v1/training_runs?limit=1&offset=", offset, "&access_scope=owned")));
  };
  TINKER_TRY(const auto first, page(0));
  TINKER_TRY(const auto beyond, page(first.cursor.total_count));
  if (first.training_runs.size() == 1 && first.cursor.limit == 1 && first.cursor.offset == 0 &&
      first.cursor.total_count >= 1 && beyond.training_runs.empty()) {
    return base::concat(first.cursor.total_count, " runs");
  }
  return broken(base::concat("GET training_runs with limit 1 gave ",
                             first.training_runs.size(),
                             " runs and a cursor of limit ",
                             first.cursor.limit,
                             ", total_count ",
                             first.cursor.total_count,
                             "; beyond the last ",
                             beyond.training_runs.size()));
}

Evidence weights_info(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto training, model.save("a"));
  TINKER_TRY(const auto sampler, model.save_for_sampler("b"));
  for (const auto& path : {training, sampler}) {
    TINKER_TRY(const auto answer,
               probe.post("/api/v1/weights_info", WeightsInfoRequest{.tinker_path = path}));
    TINKER_TRY(const auto info, probe.read<WeightsInfoResponse>(answer));
    if (info.base_model != probe.base_model() || !info.is_lora || info.lora_rank != 8) {
      return broken(base::concat(
          answer.to_string(), ", expected base_model '", probe.base_model(), "', LoRA of rank 8"));
    }
  }
  return held();
}

/// Seconds until a checkpoint expires; nothing where it does not.
Result<std::optional<double>> seconds_left(Probe& probe, const std::string& path) {
  TINKER_TRY(const auto entry, listed(probe, path));
  if (!entry.expires_at) return std::optional<double>();
  const auto left = entry.expires_at->instant() - std::chrono::system_clock::now();
  return std::optional(std::chrono::duration<double>(left).count());
}

Result<void> expect_ttl(Probe& probe, const std::string& path, double expected) {
  TINKER_TRY(const auto left, seconds_left(probe, path));
  if (left && std::abs(*left - expected) < 600) return {};
  return broken(base::concat("expires_at of '",
                             path,
                             "' is ",
                             left ? base::concat(*left, " s away") : std::string("not there"),
                             ", expected ",
                             expected,
                             " s"));
}

Evidence ttl(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto handle, probe.accepted(post_save(model, "a", 7200)));
  TINKER_TRY(const auto saved, probe.json_result<SaveWeightsResponse>(handle.request_id));
  probe.remember_checkpoint(saved.path);
  TINKER_TRY(expect_ttl(probe, saved.path, 7200));
  const auto url = checkpoint_url(saved.path, "/ttl");
  TINKER_TRY(expect_ok(call(probe, http::Method::put, url, R"({"ttl_seconds":86400})")));
  TINKER_TRY(expect_ttl(probe, saved.path, 86400));
  TINKER_TRY(expect_ok(call(probe, http::Method::put, url, R"({"ttl_seconds":null})")));
  TINKER_TRY(const auto left, seconds_left(probe, saved.path));
  if (left) return broken("expires_at is still there after ttl_seconds null");
  return held();
}

Evidence publish(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto path, model.save_for_sampler("a"));
  const auto url = checkpoint_url(path, "/publish");
  for (const bool is_public : {true, false}) {
    const auto method = is_public ? http::Method::post : http::Method::delete_;
    const auto answer = call(probe, method, url);
    TINKER_TRY(expect_ok(answer));
    TINKER_TRY(const auto entry, listed(probe, path));
    if (entry.is_public != is_public) {
      return broken(base::concat(
          answer->to_string(), ", after which the entry is ", is_public ? "private" : "public"));
    }
  }
  return held();
}

Evidence deletion(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto gone, model.save("a"));
  TINKER_TRY(const auto kept, model.save_for_sampler("a"));
  TINKER_TRY(expect_ok(call(probe, http::Method::delete_, checkpoint_url(gone))));
  TINKER_TRY(const auto entry, entry_of(probe, gone));
  if (entry) return broken(base::concat("'", gone, "' is listed after it was deleted"));
  TINKER_TRY(listed(probe, kept));
  const LoadWeightsRequest request = {
      .model_id = model.id(), .seq_id = model.take_seq(), .path = gone, .optimizer = false};
  return refused_or_failed(probe, probe.post("/api/v1/load_weights", request));
}

Evidence bare_id(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto path, model.save("a"));
  TINKER_TRY(auto evidence,
             refused(call(probe,
                          http::Method::delete_,
                          base::concat("/api/v1/training_runs/", model.id(), "/checkpoints/a"))));
  TINKER_TRY(listed(probe, path));
  return evidence;
}

constexpr auto kLaws = std::to_array<Law>({
    {"checkpoints.paths",
     "Saves give tinker://RUN/weights/NAME and /sampler_weights/NAME, which may "
     "share a name, and are listed",
     paths},
    {"checkpoints.save_and_load", "Loaded weights are the saved ones", save_and_load},
    {"checkpoints.resume", "A run resumed with its optimizer goes on as it would have", resume},
    {"checkpoints.weights_only",
     "Weights loaded without their optimizer start with a new one",
     weights_only},
    {"checkpoints.load_drops_gradients",
     "Loading drops gradients that no step has used",
     load_drops_gradients},
    {"checkpoints.create_via_load", "load_weights with a session makes a model", create_via_load},
    {"checkpoints.sample_from", "A sampler of a checkpoint has its weights", sample_from},
    {"checkpoints.sample_from_training",
     "A sampler may be made of training weights",
     sample_from_training},
    {"checkpoints.ephemeral", "A save for sampling without a name leaves no checkpoint", ephemeral},
    {"checkpoints.get_sampler", "GET samplers/ID knows model and path", get_sampler},
    {"checkpoints.taken_name",
     "A name that is taken is the user's error, not a conflict",
     taken_name},
    {"checkpoints.overwrite", "overwrite replaces what was there", overwrite},
    {"checkpoints.bad_names", "Names that cannot be part of a path are refused", bad_names},
    {"checkpoints.unknown_path", "Loading what is not there is refused", unknown_path},
    {"checkpoints.lists",
     "Checkpoints are listed with the run and with the user, newest first",
     lists},
    {"checkpoints.pages",
     "Lists of runs keep to limit and offset, and say how many there are",
     pages},
    {"checkpoints.weights_info",
     "weights_info knows base model and rank of both kinds",
     weights_info},
    {"checkpoints.ttl", "ttl_seconds sets expires_at, null removes it", ttl},
    {"checkpoints.publish",
     "publish and unpublish change who may read, and delete nothing",
     publish},
    {"checkpoints.deletion", "What is deleted is gone, and nothing else", deletion},
    {"checkpoints.bare_id",
     "Deleting a name without its kind is refused, and deletes nothing",
     bare_id},
});

}  // namespace

std::span<const Law> checkpoints_laws() {
  return kLaws;
}

}  // namespace tinker::conform
