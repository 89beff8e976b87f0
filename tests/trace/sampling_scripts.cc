#include <functional>
#include <limits>

#include "scripts.h"

namespace tinker::trace {
namespace {

using namespace std::chrono_literals;
using Call = std::function<void(const SamplingClient&)>;

/// Makes each call with a sampler of a new session, one after the other.
void samples(const std::vector<Call>& calls) {
  const auto service = connect();
  const auto sampling = sampler(service);
  for (const auto& call : calls) call(sampling);
  finish(service);
}

Future<SampleResponse> start(const SamplingClient& sampling) {
  return sampling.sample(text({65, 66}), two_tokens());
}
void one(const SamplingClient& sampling) {
  start(sampling).get().value();
}
void one_fails(const SamplingClient& sampling) {
  expect_error(start(sampling).get());
}

void sample_one() {
  samples({one});
}
void sample_two() {
  samples({one, one});
}
void sample_fails() {
  samples({one_fails});
}
void sample_fails_once() {
  samples({one_fails, one});
}

Call with_params(std::int64_t count, SamplingParams params) {
  return [count, params](const SamplingClient& sampling) {
    sampling.sample(text({65, 66}), params, {.num_samples = count}).get().value();
  };
}

void sample_parameters() {
  const std::vector<std::string> texts = {"x", "yz"};
  const std::vector<std::int32_t> tokens = {10, 13};
  samples({
      with_params(1, {}),
      with_params(
          3,
          {.max_tokens = 4, .seed = 7, .stop = "x", .temperature = 0.5, .top_k = 40, .top_p = 0.9}),
      with_params(
          1, {.max_tokens = 2, .seed = std::numeric_limits<std::int64_t>::max(), .stop = texts}),
      with_params(1, {.max_tokens = 2, .seed = -5, .stop = tokens, .temperature = 0.0}),
      with_params(
          1,
          {.max_tokens = 2, .stop = std::vector<std::string>(), .temperature = 1e-05, .top_p = 1}),
  });
}

ModelInput long_prompt() {
  return text({65, 66, 67, 68});
}

Call with_readouts(SampleOptions options) {
  return [options](const SamplingClient& sampling) {
    sampling.sample(long_prompt(), two_tokens(), options).get().value();
  };
}

void sample_readouts() {
  const TensorData dense(Buffer(std::vector<std::int64_t>{66, 70, 67, -1, -1, -1}),
                         TensorData::Shape{3, 2});
  samples({
      with_readouts({.include_prompt_logprobs = true}),
      with_readouts({.include_prompt_logprobs = true,
                     .topk_prompt_logprobs = 3,
                     .prompt_logprobs_last_n = 2}),
      with_readouts({.topk_sample_logprobs = 2}),
      with_readouts({.target_prompt_logprobs = dense}),
      with_readouts({.prompt_alt_tokens_k = 2}),
      [](const SamplingClient& s) { s.compute_logprobs(long_prompt()).get().value(); },
      [](const SamplingClient& s) { s.compute_logprobs(long_prompt(), 1).get().value(); },
  });
}

void sample_sparse_targets() {
  const TensorData sparse(
      Buffer(std::vector<std::int64_t>{70, 71}),
      TensorData::Shape{3, 4},
      {.crow = std::vector<std::int64_t>{0, 0, 1, 2}, .col = std::vector<std::int64_t>{0, 3}});
  samples({with_readouts({.target_prompt_logprobs = sparse})});
}

void sample_images() {
  samples({[](const SamplingClient& sampling) {
    const ModelInput prompt = {
        .chunks = {
            EncodedTextChunk{.tokens = {65, 66}},
            ImageChunk{
                .data = "\x89PNG\r\n\x1a\n", .format = ImageFormat::png, .expected_tokens = 16},
            ImageChunk{.data = "\xff\xd8\xff", .format = ImageFormat::jpeg},
            ImageAssetPointerChunk{.format = ImageFormat::png,
                                   .location = "tinker://images/cat.png",
                                   .expected_tokens = 16},
            EncodedTextChunk{.tokens = {67}}}};
    sampling.sample(prompt, two_tokens()).get().value();
  }});
}

void sample_client_options() {
  const auto service = connect();
  sampler(service, {.record_stability_info = true})
      .sample(text({65}), two_tokens(), {.num_samples = 2})
      .get()
      .value();
  const auto second = sampler(service, {.retry = {.enable_retry_logic = false}});
  second.sample(text({66}), two_tokens()).get().value();
  second.get_base_model().get().value();
  finish(service);
}

void sample_many() {
  samples({[](const SamplingClient& sampling) {
    std::vector<Future<SampleResponse>> futures;
    for (std::int32_t i = 0; i < 8; ++i) {
      futures.push_back(sampling.sample(text({65 + i}), two_tokens()));
    }
    for (auto& future : futures) future.get().value();
  }});
}

void sample_bad_arguments() {
  samples({
      [](const SamplingClient& sampling) {
        const SampleOptions options = {.prompt_alt_tokens_k = -1};
        expect_error(sampling.sample(text({65, 66}), two_tokens(), options).get());
      },
      [](const SamplingClient& sampling) {
        const SampleOptions options = {.prompt_logprobs_last_n = 1};
        expect_error(sampling.sample(text({65, 66}), two_tokens(), options).get());
      },
      one,
  });
}

void sample_cancelled() {
  const auto cancel = [](const SamplingClient& sampling) {
    auto future = sampling.sample(text({65}), two_tokens());
    pause(500ms);
    future.cancel();
    pause(500ms);
  };
  samples({cancel, one});
}

SamplingClient restored(const SamplingClient& sampling) {
  const auto handle = sampling.get_sampler_handle().get().value();
  return SamplingClient::from_sampler_handle(handle).get().value();
}

void sampler_handle() {
  const auto service =
      ServiceClient::connect({.headers = {{.name = "X-Team", .value = "ml"}}}).value();
  const auto copy = restored(sampler(service, {.record_stability_info = true}));
  one(copy);
  one(copy);
  finish(service);
}

void sampler_handle_joins() {
  const auto service = connect();
  const auto original = sampler(service);
  one(original);
  const auto first = restored(original);
  one(first);
  one(first);
  one(restored(original));
  finish(service);
}

void sampler_missing() {
  const auto service = connect();
  expect_error(
      service.create_sampling_client({.model_path = "tinker://run/sampler_weights/none"}).get());
  expect_error(service.create_sampling_client({.model_path = "/tmp/weights"}).get());
  sampler(service);
  finish(service);
}

}  // namespace

std::vector<Script> sampling_scripts() {
  return {
      {"sample_parameters", sample_parameters},
      {"sample_readouts", sample_readouts},
      {"sample_sparse_targets", sample_sparse_targets},
      {"sample_images", sample_images},
      {"sample_client_options", sample_client_options},
      {"sample_many", sample_many},
      {"sample_submission_rounds", sample_one},
      {"sample_backs_off", sample_two},
      {"sample_unpaid", sample_one},
      {"sample_poll_retries", sample_one},
      {"sample_starts_again", sample_two},
      {"sample_once_only", sample_fails_once},
      {"sample_failed", sample_fails_once},
      {"sample_refused", sample_fails},
      {"sample_bad_arguments", sample_bad_arguments},
      {"sample_metadata_first", sample_one},
      {"sample_batched", sample_two},
      {"sample_batched_failed", sample_fails_once},
      {"sample_batched_retries", sample_one},
      {"sample_cancelled", sample_cancelled},
      {"sample_cancelled_silently", sample_cancelled},
      {"sampler_handle", sampler_handle},
      {"sampler_handle_joins", sampler_handle_joins},
      {"sampler_missing", sampler_missing},
  };
}

}  // namespace tinker::trace
