// Somebody sets the clock of the machine while the library works.

#include <array>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::clock_jumps_test {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

constexpr auto kYear = 24h * 365;

class ClockJumps : public ::testing::TestWithParam<std::chrono::hours> {
 protected:
  ClientFixture f;
  ServiceClient service = f.connect();
  TrainingClient trainer = service.create_lora_training_client("llama").get().value();
};

TEST_P(ClockJumps, DoNotDisturbHeartbeats) {  // R4.2, R4.3
  f.time.advance(15s);

  f.time.shift_wall_time(GetParam());
  f.time.advance(20s);

  EXPECT_THAT(f.server->sent("/session_heartbeat"), SizeIs(3));
  EXPECT_THAT(f.log.lines("no heartbeat"), IsEmpty());
}

TEST_P(ClockJumps, DoNotDisturbDeadlines) {
  f.server->reply("/optim_step", {{.never = true}});
  auto step = trainer.with({.deadline = 10s}).optim_step(AdamParams());
  f.time.advance(5s);

  f.time.shift_wall_time(GetParam());
  f.time.run_ready();

  EXPECT_FALSE(step.is_ready());
  EXPECT_THAT(step.get(), IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_EQ(f.time.elapsed(), 10s);
}

TEST_P(ClockJumps, DoNotDisturbTheBackoff) {  // R10.6
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();
  f.server->reply("/asample", {{.status = 429}, {.body = R"({"request_id":"r-9"})"}});
  auto sample = sampler.sample(ModelInput::from_tokens({1}), {});
  f.time.advance(500ms);

  f.time.shift_wall_time(GetParam());

  EXPECT_THAT(sample.get(), IsOk());
  EXPECT_EQ(f.server->sent("/asample")[1].at, 1s);
}

TEST_P(ClockJumps, DoNotDisturbRetries) {  // R5.2.3, R5.4.2
  f.server->reply("/optim_step",
                  {{.status = 503, .headers = {{"retry-after", "20"}}},
                   {.status = 503},
                   {.body = R"({"request_id":"r-9"})"}});
  auto step = trainer.optim_step(AdamParams());
  f.time.advance(10s);

  f.time.shift_wall_time(GetParam());

  EXPECT_THAT(step.get(), IsOk());
  EXPECT_EQ(f.server->sent("/optim_step")[1].at, 20s);
  EXPECT_LE(f.time.elapsed(), 21s);
}

/// "00:10:01", by a clock that nobody touches: that of the server.
std::string time_of_day(std::chrono::nanoseconds elapsed) {
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(elapsed));
  std::array<char, 16> out = {};
  (void)std::snprintf(out.data(),
                      out.size(),
                      "%02d:%02d:%02d",
                      static_cast<int>(time.hours().count()),
                      static_cast<int>(time.minutes().count()),
                      static_cast<int>(time.seconds().count()));
  return out.data();
}

/// A save gets no answer, and then its name is taken, by a checkpoint that was made so long after
/// the save began; on the way somebody sets our clock.
Result<SaveWeightsResponse> save_over(ClientFixture& f,
                                      const TrainingClient& trainer,
                                      std::chrono::seconds after,
                                      std::chrono::hours jump) {
  int asked = 0;
  f.time.advance(10min);
  f.server->handle("/save_weights", [&f, &asked](const http::Request&) {
    if (++asked == 1) {
      return FakeReply{
          .error = Error{.code = ErrorCode::connection_failed, .message = "connection reset"}};
    }
    const auto date = "Thu, 01 Jan 2026 " + time_of_day(f.time.elapsed()) + " GMT";
    return FakeReply{.status = 409, .body = "name exists", .headers = {{"Date", date}}};
  });
  f.server->reply(
      "/checkpoints",
      {{.body =
            R"({"checkpoints":[{"checkpoint_id":"weights/a","checkpoint_type":"training","time":"2026-01-01T)" +
            time_of_day(f.time.elapsed() + after) +
            R"(Z","tinker_path":"tinker://s-1:train:0/weights/a"}]})"}});
  auto save = trainer.save_state("a");
  f.time.run_ready();
  f.time.shift_wall_time(jump);
  return save.get();
}

TEST_P(ClockJumps, DoNotHideItsOwnCheckpoint) {  // R7.13
  EXPECT_THAT(save_over(f, trainer, 1s, GetParam()), IsOk());
}

TEST_P(ClockJumps, DoNotTakeAnotherCheckpointForItsOwn) {  // R7.13
  EXPECT_THAT(save_over(f, trainer, -10s, GetParam()),
              IsError(ErrorCode::conflict, HasSubstr("name exists")));
}

INSTANTIATE_TEST_SUITE_P(BothWays,
                         ClockJumps,
                         ::testing::Values(kYear, -kYear),
                         [](const auto& jump) { return jump.param > 0h ? "forward" : "back"; });

}  // namespace
}  // namespace tinker::client::clock_jumps_test
