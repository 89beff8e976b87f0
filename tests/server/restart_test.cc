// What a durable server tells of its runs when it is started again on its data folder.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "support/durable_fixture.h"
#include "support/raw_http.h"
#include "tinker/admin_client.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"
#include "wire/json.h"

namespace tinker::restart_test {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;

class Restart : public testing::DurableTest {
 protected:
  static std::vector<Datum> batch() { return {Datum::next_token({5, 9, 12, 200, 31, 7, 77})}; }
  static void step(const TrainingClient& trainer) {
    trainer.forward_backward(batch(), LossFn::cross_entropy).get().value();
    trainer.optim_step({.learning_rate = 1e-2}).get().value();
  }
  /// What became of a request.
  using DurableTest::outcome;
  [[nodiscard]] std::string outcome(const TrainingClient& trainer, std::int64_t seq_id) const {
    return outcome(base::concat(trainer.model_id(), ":", seq_id));
  }
  /// Half as much as makes a log so long that the state is written.
  static constexpr std::size_t kHalfOfAState = std::size_t{33} << 20U;

  /// The result of a forward pass, by a body that is so many bytes longer than it need be.
  [[nodiscard]] std::string forward(const TrainingClient& trainer,
                                    std::int64_t seq_id,
                                    std::size_t padding = 0) const {
    const ForwardBackwardRequest request = {
        .model_id = trainer.model_id(), .seq_id = seq_id, .data = batch(), .forward_only = true};
    const auto accepted =
        post("forward", wire::encode_json(request).value() + std::string(padding, ' '));
    const auto id = wire::decode_json<UntypedApiFuture>(accepted.body);
    return id.ok() ? outcome(id->request_id) : accepted.body;
  }
  [[nodiscard]] testing::RawResponse post_step(const TrainingClient& trainer,
                                               std::optional<std::int64_t> seq_id = {}) const {
    const OptimStepRequest request = {.optim_params = AdamParams{.learning_rate = 1e-2},
                                      .model_id = trainer.model_id(),
                                      .seq_id = seq_id};
    return post("optim_step", wire::encode_json(request).value());
  }
  [[nodiscard]] std::uintmax_t log_bytes() const { return std::filesystem::file_size(log()); }
  [[nodiscard]] bool begins_with_a_state() const {
    std::ifstream file(log(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find("snapshot-") != std::string::npos;
  }
  [[nodiscard]] std::int64_t tokens_trained() const {
    const auto admin =
        AdminClient::connect({.base_url = server_->base_url(), .api_key = Secret("tml-local-test")})
            .value();
    const auto hour = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
    const auto usage = admin
                           .get_billing_usage(DateTime(hour - std::chrono::hours(1)),
                                              DateTime(hour + std::chrono::hours(2)))
                           .get()
                           .value();
    std::int64_t sum = 0;
    for (const auto& event : usage.data) {
      if (const auto* trained = std::get_if<TrainingBillingEvent>(&event.event_info))
        sum += trained->token_count;
    }
    return sum;
  }
};

TEST_F(Restart, LeavesTheTimeOfARunsLastRequest) {
  const auto service = connect();
  const auto trainer = new_run(service);
  step(trainer);
  const auto last_request = [&] {
    return service.create_rest_client()
        .get_training_run(trainer.model_id())
        .get()
        .value()
        .last_request_time;
  };
  const auto before = last_request();

  start_again();
  EXPECT_EQ(last_request(), before);  // the run is in memory, its requests were done again
  options_.durable = false;
  start_again();

  EXPECT_EQ(last_request(), before);  // the catalogue's
}

TEST_F(Restart, DoesNotDoAStepThatCameTooLate) {
  options_.limits.chunk_time = std::chrono::milliseconds(1);
  start_again();
  const auto trainer = new_run(connect());
  const ForwardBackwardRequest second = {
      .model_id = trainer.model_id(), .seq_id = 2, .data = batch()};
  ASSERT_EQ(post("forward_backward", wire::encode_json(second).value()).status, 200);
  ASSERT_THAT(outcome(trainer, 2), HasSubstr("loss_fn_outputs"));  // it did not wait for the first
  const auto step =
      base::concat(R"({"model_id":")", trainer.model_id(), R"(","seq_id":1,"adam_params":{}})");
  ASSERT_EQ(post("optim_step", step).status, 200);
  const auto refused = outcome(trainer, 1);
  ASSERT_THAT(refused, HasSubstr("given it up"));
  options_.limits.chunk_time = std::chrono::minutes(1);

  start_again();

  EXPECT_EQ(outcome(trainer, 1), refused);
  EXPECT_THAT(outcome(trainer, 2), HasSubstr("loss_fn_outputs"));
}

TEST_F(Restart, HasAShortLogOfARunThatOnlyComputesLogprobs) {
  const auto trainer = new_run(connect());
  const auto logprobs = forward(trainer, 1, kHalfOfAState);
  ASSERT_THAT(logprobs, HasSubstr("loss_fn_outputs"));
  (void)forward(trainer, 2, kHalfOfAState);
  std::int64_t last = 2;
  while (last < 500 && log_bytes() > kHalfOfAState) (void)forward(trainer, ++last);  // in its time

  EXPECT_LT(log_bytes(), kHalfOfAState);
  start_again();
  EXPECT_EQ(forward(trainer, last + 1), logprobs);
}

TEST_F(Restart, GoesOnFromAStateOfARunWhoseStepsHaveNoNumbers) {
  options_.snapshot_steps = 1;
  start_again();
  const auto trainer = new_run(connect());
  for (int i = 0; i < 500 && !begins_with_a_state(); ++i) {
    const auto accepted = wire::decode_json<UntypedApiFuture>(post_step(trainer).body).value();
    ASSERT_THAT(outcome(accepted.request_id), HasSubstr("metrics"));
  }
  EXPECT_TRUE(begins_with_a_state());
  const auto before = forward(trainer, 1);

  start_again();

  EXPECT_EQ(forward(trainer, 2), before);
}

TEST_F(Restart, SaysThatAResultIsGoneWhichWasThere) {
  options_.snapshot_steps = 1;
  options_.limits.delivered_time = std::chrono::milliseconds(1);
  start_again();
  const auto trainer = new_run(connect());
  for (int i = 0; i < 500 && !begins_with_a_state(); ++i) step(trainer);
  const auto status = [&](int number) {
    return post("retrieve_future",
                base::concat(R"({"request_id":")", trainer.model_id(), ":", number, R"("})"))
        .status;
  };

  start_again();

  EXPECT_EQ(status(1), 410);
  EXPECT_EQ(status(100'000), 404);
}

TEST_F(Restart, ForgetsWhatIsLeftOfARunWithoutALog) {
  const auto trainer = new_run(connect());
  const auto folder = log().parent_path();
  const auto unload = [&] {
    const auto answer = post("unload_model", R"({"model_id":")" + trainer.model_id() + "\"}");
    return outcome(wire::decode_json<UntypedApiFuture>(answer.body).value().request_id);
  };
  const auto unloaded = unload();
  std::filesystem::create_directories(folder / "snapshot-7");  // it was written in the meantime

  start_again();

  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(unload(), unloaded);
}

TEST_F(Restart, IsNotNeededToRemoveStatesAfterALogThatCouldNotBeCut) {
  options_.snapshot_steps = 1;
  start_again();
  const auto trainer = new_run(connect());
  const auto folder = log().parent_path();
  const auto states = [&] {
    return std::ranges::count_if(std::filesystem::directory_iterator(folder),
                                 [](const auto& entry) {
                                   return entry.path().filename().string().starts_with("snapshot-");
                                 });
  };
  std::filesystem::create_directory(folder / "log.new");  // in the way of a new log
  for (int i = 0; i < 5000 && states() < 3; ++i) step(trainer);
  ASSERT_GE(states(), 3);
  std::filesystem::remove(folder / "log.new");

  for (int i = 0; i < 5000 && states() > 1; ++i) step(trainer);

  EXPECT_EQ(states(), 1);
}

TEST_F(Restart, HasGradientsThatNoStepHadUsedHoweverLongTheLogIs) {
  const auto undisturbed = new_run(connect());
  step(undisturbed);
  const auto expected = forward(undisturbed, 3);
  const auto trainer = new_run(connect());
  trainer.forward_backward(batch(), LossFn::cross_entropy).get().value();
  (void)forward(trainer, 2, kHalfOfAState);
  (void)forward(trainer, 3, kHalfOfAState);
  for (int i = 4; i < 20; ++i) (void)forward(trainer, i);

  start_again();
  ASSERT_EQ(post_step(trainer, 20).status, 200);

  EXPECT_EQ(forward(trainer, 21), expected);
}

TEST_F(Restart, CountsNoTokenTwice) {
  const auto trainer = new_run(connect());
  step(trainer);
  const auto before = tokens_trained();
  ASSERT_GT(before, 0);

  start_again();
  ASSERT_THAT(trainer.optim_step({.learning_rate = 1e-2}).get(), IsOk());  // all is done again

  EXPECT_EQ(tokens_trained(), before);
  step(trainer);
  EXPECT_EQ(tokens_trained(), 2 * before);
}

}  // namespace
}  // namespace tinker::restart_test
