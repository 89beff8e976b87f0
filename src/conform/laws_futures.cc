#include <algorithm>
#include <array>

#include "conform/lab.h"
#include "tinker/types/model.h"

// How results are handed out (PROTOCOL 9.19, 9.38, 9.39).

namespace tinker::conform {

namespace {

Evidence delivered_again(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto id, model.submit({.data = {weighted(1.0)}}));
  TINKER_TRY(const auto first, probe.settle(id, kProto));
  TINKER_TRY(const auto second, probe.settle(id, kProto));
  if (!first.ok() || !second.ok() || first.body != second.body) {
    return broken(base::concat(first.to_string(),
                               ", then ",
                               second.to_string(),
                               ", expected the same result: the first answer may have been lost"));
  }
  return held();
}

Evidence unknown_id(Probe& probe) {
  return refused(probe.post("/api/v1/retrieve_future",
                            FutureRetrieveRequest{.request_id = "no-such-request"}));
}

Evidence users_error(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest request = {.data = {weighted(1.0)}};
  request.data[0].loss_fn_inputs.erase("target_tokens");
  return failed_as_users(probe, model.post(request));
}

Evidence error_again(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  ForwardBackwardRequest request = {.data = {weighted(1.0)}};
  request.loss_fn = OpenEnum<LossFn>::parse("no_such_loss");
  TINKER_TRY(const auto id, model.submit(request));
  TINKER_TRY(const auto first, probe.settle(id));
  TINKER_TRY(const auto second, probe.settle(id));
  if (first.status != second.status || first.body != second.body) {
    return broken(base::concat(
        first.to_string(), ", then ", second.to_string(), ", expected the same failure again"));
  }
  return first.to_string();
}

/// Polls once, allowing metadata or not.
Result<Answer> poll(Probe& probe, const std::string& id, bool allow_metadata) {
  TINKER_TRY(auto body,
             wire::encode_json(
                 FutureRetrieveRequest{.request_id = id, .allow_metadata_only = allow_metadata}));
  return probe.send({.path = "/api/v1/retrieve_future", .body = std::move(body), .accept = kProto});
}

Evidence metadata(Probe& probe) {
  TINKER_TRY(auto model, Trainee::create(probe));
  TINKER_TRY(const auto id, model.submit({.data = {weighted(1.0)}, .forward_only = true}));
  TINKER_TRY(const auto whole, probe.settle(id, kProto));
  TINKER_TRY(const auto short_form, poll(probe, id, true));
  TINKER_TRY(const auto again, poll(probe, id, false));
  if (!whole.is_proto || !again.is_proto || whole.body != again.body) {
    return broken(base::concat(again.to_string(),
                               ", expected the result with allow_metadata_only "
                               "off, as at first: ",
                               whole.to_string()));
  }
  if (short_form.is_proto) return std::string("small results come whole");
  TINKER_TRY(const auto size, probe.read<CompleteMetadataResponse>(short_form));
  if (size.response_payload_size.value_or(0) > static_cast<std::int64_t>(2 * whole.body.size())) {
    return broken(base::concat(
        short_form.to_string(), ", expected the size of the result, ", whole.body.size()));
  }
  return short_form.to_string();
}

Evidence batched_poll(Probe& probe) {
  if (!probe.config().sample_use_retrieve_futures) {
    return undecided("flag sample_use_retrieve_futures is off");
  }
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    TINKER_TRY(auto handle,
               sampler.submit({.prompt = ModelInput::from_tokens(reference_text()),
                               .sampling_params = {.max_tokens = 1}}));
    ids.push_back(std::move(handle.request_id));
  }
  FuturesRetrieveRequest request = {.target = {.sampling_session_id = sampler.id()}};
  std::vector<std::string> done;
  for (int polls = 0; done.size() < ids.size() && polls < 20; ++polls) {
    TINKER_TRY(const auto answer, probe.post("/api/v1/retrieve_futures", request));
    TINKER_TRY(const auto read, probe.read<FuturesRetrieveResponse>(answer));
    for (const auto& each : read.completions) {
      const auto* finished = std::get_if<FutureFinished>(&each);
      if (finished == nullptr) return broken(answer.to_string() + ", expected finished samples");
      done.push_back(finished->request_id);
    }
    request.prev_cursor = read.cursor;
  }
  std::ranges::sort(done);
  std::ranges::sort(ids);
  if (done != ids) {
    return broken(base::concat("retrieve_futures told of ",
                               done.size(),
                               " completions, expected "
                               "each of 3 samples once"));
  }
  return held();
}

Evidence cancelled(Probe& probe) {
  if (!probe.dynamic_config().sample_cancel_enabled) {
    return undecided("flag sample_cancel_enabled is off");
  }
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(const auto handle,
             sampler.submit({.prompt = ModelInput::from_tokens(reference_text()),
                             .sampling_params = {.max_tokens = 16}}));
  TINKER_TRY(
      const auto answer,
      probe.post("/api/v1/cancel_future", CancelFutureRequest{.request_id = handle.request_id}));
  if (!answer.ok()) return broken(answer.to_string() + ", expected 200");
  TINKER_TRY(const auto end, probe.settle(handle.request_id, kProto));
  if (end.status >= 500) return broken(end.to_string() + ", expected an end that is no 5xx");
  return end.to_string();
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "futures.delivered_again",
     .sentence = "A result can be asked for again, and is the same",
     .check = delivered_again},
    {.id = "futures.unknown_id",
     .sentence = "An unknown request id is refused at once",
     .check = unknown_id},
    {.id = "futures.users_error",
     .sentence = "An operation that fails for its content answers 200 with error and "
                 "category user",
     .check = users_error},
    {.id = "futures.error_again",
     .sentence = "A failure can be asked for again, and is the same",
     .check = error_again},
    {.id = "futures.metadata",
     .sentence = "complete_metadata comes only where it is allowed",
     .check = metadata},
    {.id = "futures.batched_poll",
     .sentence = "retrieve_futures tells of each sample once",
     .check = batched_poll},
    {.id = "futures.cancelled",
     .sentence = "cancel_future answers, and the sample ends",
     .check = cancelled},
});

}  // namespace

std::span<const Law> futures_laws() {
  return kLaws;
}

}  // namespace tinker::conform
