#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "conform/lab.h"
#include "conform/stored.h"
#include "tinker/types/weights.h"

// Names of checkpoints, and what the server says about them and does to them (PROTOCOL 9.21-9.30).

namespace tinker::conform {

namespace {

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

Result<void> expect_ok(const Result<Answer>& answer) {
  if (!answer) return answer.error();
  if (answer->ok()) return {};
  return broken(answer->to_string() + ", expected 200");
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
    {.id = "catalogue.taken_name",
     .sentence = "A name that is taken is the user's error, not a conflict",
     .check = taken_name},
    {.id = "catalogue.overwrite",
     .sentence = "overwrite replaces what was there",
     .check = overwrite},
    {.id = "catalogue.bad_names",
     .sentence = "Names that cannot be part of a path are refused",
     .check = bad_names},
    {.id = "catalogue.unknown_path",
     .sentence = "Loading what is not there is refused",
     .check = unknown_path},
    {.id = "catalogue.lists",
     .sentence = "Checkpoints are listed with the run and with the user, newest first",
     .check = lists},
    {.id = "catalogue.pages",
     .sentence = "Lists of runs keep to limit and offset, and say how many there are",
     .check = pages},
    {.id = "catalogue.weights_info",
     .sentence = "weights_info knows base model and rank of both kinds",
     .check = weights_info},
    {.id = "catalogue.ttl",
     .sentence = "ttl_seconds sets expires_at, null removes it",
     .check = ttl},
    {.id = "catalogue.publish",
     .sentence = "publish and unpublish change who may read, and delete nothing",
     .check = publish},
    {.id = "catalogue.deletion",
     .sentence = "What is deleted is gone, and nothing else",
     .check = deletion},
    {.id = "catalogue.bare_id",
     .sentence = "Deleting a name without its kind is refused, and deletes nothing",
     .check = bare_id},
});

}  // namespace

std::span<const Law> catalogue_laws() {
  return kLaws;
}

}  // namespace tinker::conform
