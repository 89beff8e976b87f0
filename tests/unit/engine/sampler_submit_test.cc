// What requests may ask for, and what is refused.

#include <limits>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "unit/engine/sampler_fixture.h"

namespace tinker::engine::sampler_submit_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

struct SamplerSubmit : SamplerFixture {};

TEST_F(SamplerSubmit, RefusesWhatTheCacheCannotHold) {
  const KvLayout layout(model->config(), model->kernels(), model->config().layers);
  Sampler sampler(model, threads, {.cache_bytes = 3 * layout.page_bytes()});

  EXPECT_THAT(
      sample(sampler, job(prompt, {.max_tokens = 27})),
      IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("97 tokens"), HasSubstr("holds 96"))));
  EXPECT_THAT(sample(sampler, job(prompt, {.max_tokens = 26})), IsOk());
  EXPECT_THAT(sample(sampler, job(some_tokens(*model, 200, 1), {})),
              IsError(ErrorCode::invalid_argument, HasSubstr("prompt has 200 tokens")));
}

TEST_F(SamplerSubmit, WritesUntilTheCacheIsFullIfNobodySaysHowMuch) {
  const KvLayout layout(model->config(), model->kernels(), model->config().layers);
  Sampler sampler(model, threads, {.cache_bytes = 3 * layout.page_bytes()});

  const auto answer = sample(sampler, job(prompt, {.stop = kNoStop}));

  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->sequences.at(0).tokens.size(), 96 - prompt.size());
}

TEST_F(SamplerSubmit, RefusesAnswersThatCouldBeTooLarge) {
  const auto refused = [](const char* what) {
    return IsError(ErrorCode::invalid_argument, HasSubstr(what));
  };
  Sampler sampler(model, threads, {.answer_bytes = 100'000});
  const auto with = [&](auto change) {
    auto out = job(prompt, {.max_tokens = 10});
    change(out.request);
    return sample(sampler, std::move(out));
  };
  // One of 69 * 1600 cells is listed.
  std::vector<std::int64_t> rows(prompt.size(), 1);
  rows[0] = 0;
  const TensorData sparse(Buffer<std::int64_t>(std::vector<std::int64_t>{1}),
                          TensorData::Shape{69, 1600},
                          CsrIndices{.crow = rows, .col = std::vector<std::int64_t>{5}});
  const TensorData wide(Buffer<std::int64_t>(std::vector<std::int64_t>{1}),
                        TensorData::Shape{69, std::int64_t{1} << 28U},
                        CsrIndices{.crow = rows, .col = std::vector<std::int64_t>{5}});

  EXPECT_THAT(with([](auto& r) { r.num_samples = 50; }), IsOk());
  EXPECT_THAT(with([](auto& r) { r.num_samples = 1'000'000'000; }),
              refused("num_samples 1000000000"));
  EXPECT_THAT(with([](auto& r) { r.topk_prompt_logprobs = 1600; }), refused("at most 0"));
  EXPECT_THAT(with([](auto& r) { r.topk_sample_logprobs = 1600; }), refused("MiB"));
  EXPECT_THAT(with([](auto& r) { r.prompt_alt_tokens_k = 1600; }), refused("MiB"));
  EXPECT_THAT(with([&](auto& r) { r.target_prompt_logprobs = sparse; }), refused("12500 cells"));
  EXPECT_THAT(with([&](auto& r) { r.target_prompt_logprobs = wide; }), refused("1601 columns"));
}

TEST_F(SamplerSubmit, RefusesAdaptersOfOtherModels) {
  auto deeper = model->config();
  ++deeper.layers;
  const auto& bf16 = kernels_of(model->kernels().path, Precision::bf16);  // the model's is f32
  for (const auto& other : {random_model(deeper, model->kernels(), threads),
                            random_model(model->config(), bf16, threads)}) {
    const auto stranger = tiny_adapter(*other, threads);
    auto asked = job(prompt, {.max_tokens = 1});
    asked.adapter = stranger;
    EXPECT_THAT(sample(std::move(asked)),
                IsError(ErrorCode::invalid_argument, HasSubstr("another model")));
  }
}

TEST_F(SamplerSubmit, RefusesParametersThatMakeNoSense) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const char* what) {
    return IsError(ErrorCode::invalid_argument, HasSubstr(what));
  };

  EXPECT_THAT(sequence({.max_tokens = 0}), refused("max_tokens is 0"));
  EXPECT_THAT(sequence({.max_tokens = -3}), refused("max_tokens is -3"));
  EXPECT_THAT(sequence({.temperature = -0.5}), refused("temperature is -0.5"));
  EXPECT_THAT(sequence({.temperature = kNan}), refused("temperature is nan"));
  EXPECT_THAT(sequence({.temperature = kInfinity}), refused("temperature is inf"));
  EXPECT_THAT(sequence({.top_k = -2}), refused("top_k is -2"));
  EXPECT_THAT(sequence({.top_p = -0.1}), refused("top_p is -0.1"));
  EXPECT_THAT(sequence({.top_p = 1.5}), refused("top_p is 1.5"));
  EXPECT_THAT(sequence({.top_p = kNan}), refused("top_p is nan"));
  EXPECT_THAT(sequence({.stop = ""}), refused("stop string 0 is empty"));
}

TEST_F(SamplerSubmit, RefusesRequestsThatMakeNoSense) {
  const auto refused = [](const char* what) {
    return IsError(ErrorCode::invalid_argument, HasSubstr(what));
  };
  const auto with = [&](auto change) {
    auto out = job({1, 2, 3}, {.max_tokens = 1});
    change(out.request);
    return sample(std::move(out));
  };
  const auto targets = [](std::vector<std::int64_t> ids, TensorData::Shape shape) {
    return [=](SampleRequest& r) {
      r.target_prompt_logprobs = TensorData(Buffer<std::int64_t>(ids), shape);
    };
  };

  EXPECT_THAT(sample(job({}, {})), refused("no tokens"));
  EXPECT_THAT(sample(job({1, -1}, {})), refused("token -1; expected 0 to 1600"));
  EXPECT_THAT(sample(job({1601}, {})), refused("token 1601"));
  EXPECT_THAT(sample(job(some_tokens(*model, 256, 1), {})), refused("context of 256"));
  EXPECT_THAT(with([](auto& r) { r.num_samples = 0; }), refused("num_samples is 0"));
  EXPECT_THAT(with([](auto& r) { r.topk_prompt_logprobs = -1; }), refused("topk_prompt_logprobs"));
  EXPECT_THAT(with([](auto& r) { r.topk_sample_logprobs = 1602; }), refused("is 1602"));
  EXPECT_THAT(with([](auto& r) { r.prompt_alt_tokens_k = -1; }), refused("prompt_alt_tokens_k"));
  EXPECT_THAT(with([](auto& r) { r.prompt_logprobs_last_n = 0; }), refused("last_n is 0"));
  EXPECT_THAT(with(targets({1, 2, 3}, {3, 1})), refused("shape [2, K]"));
  EXPECT_THAT(with(targets({1, 1601}, {2, 1})), refused("has 1601"));
  EXPECT_THAT(with(targets({1, -2}, {2, 1})), refused("has -2"));
}

TEST_F(SamplerSubmit, RefusesStopStringsWithoutATokenizer) {
  Sampler sampler(model, threads, {});

  EXPECT_THAT(sample(sampler, job(prompt, {.stop = "x"})),
              IsError(ErrorCode::invalid_argument, HasSubstr("tokenizer")));
}

TEST_F(SamplerSubmit, FailsWithWhatTheTokenizerThrows) {
  const auto fails = [](std::int32_t) -> std::string { throw std::runtime_error("no such token"); };
  Sampler sampler(model, threads, {.token_bytes = fails});
  auto asked = job(prompt, {.max_tokens = 5, .stop = "x"});
  asked.request.num_samples = 2;

  EXPECT_THAT(sample(sampler, asked), IsError(ErrorCode::internal, HasSubstr("no such token")));
  EXPECT_THAT(sample(sampler, job(prompt, {.max_tokens = 5})), IsOk());
}

}  // namespace
}  // namespace tinker::engine::sampler_submit_test
