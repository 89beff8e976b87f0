// A save that may have been carried out although its answer was lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::saves_test {
namespace {

using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

class SavesTest : public ::testing::Test {
 protected:
  void list_checkpoint(std::string_view time) {
    f.server->reply(
        "/checkpoints",
        {{.body =
              R"({"checkpoints":[{"checkpoint_id":"weights/a","checkpoint_type":"training","time":")" +
              std::string(time) + R"(","tinker_path":"tinker://s-1:train:0/weights/a"}]})"}});
  }
  /// The clock of the fixture, moved.
  std::string at(std::chrono::seconds later) const {
    return DateTime(std::chrono::time_point_cast<std::chrono::microseconds>(
                        f.time.clock().wall_time() + later))
        .to_string();
  }

  const FakeReply lost = {
      .error = Error{.code = ErrorCode::connection_failed, .message = "connection reset"}};
  const FakeReply exists = {.status = 409, .body = "name exists"};
  ClientFixture f;
  ServiceClient service = f.connect();
  TrainingClient trainer = service.create_lora_training_client("llama").get().value();
};

TEST_F(SavesTest, ItsOwnCheckpointIsNoConflict) {
  f.server->reply("/save_weights", {lost, exists});
  list_checkpoint(at(1s));

  EXPECT_THAT(trainer.save_state("a").get(),
              IsOkAndHolds(Field(&SaveWeightsResponse::path, "tinker://s-1:train:0/weights/a")));

  EXPECT_THAT(f.bodies("/save_weights"), SizeIs(2));
}

TEST_F(SavesTest, ALostAnswerIsNotHiddenByTheTransport) {
  EXPECT_THAT(trainer.save_state("a").get(), ::tinker::testing::IsOk());
  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), ::tinker::testing::IsOk());

  EXPECT_FALSE(f.server->sent("/save_weights").at(0).request.is_repeatable);
  EXPECT_TRUE(f.server->sent("/optim_step").at(0).request.is_repeatable);
}

TEST_F(SavesTest, AnOlderCheckpointIsAConflict) {
  f.server->reply("/save_weights", {lost, exists});
  list_checkpoint(at(-1s));

  EXPECT_THAT(trainer.save_state("a").get(),
              IsError(ErrorCode::conflict, HasSubstr("name exists")));
}

TEST_F(SavesTest, AConflictAtTheFirstAnswerIsOne) {  // R7.13
  f.server->reply("/save_weights", {exists});
  list_checkpoint(at(1h));

  EXPECT_THAT(trainer.save_state("a").get(),
              IsError(ErrorCode::conflict, HasSubstr("name exists")));
  EXPECT_THAT(f.server->sent("/checkpoints"), SizeIs(0));
}

TEST_F(SavesTest, TimesAreComparedByTheClockOfTheServer) {
  FakeReply slow_clock = exists;  // the server's clock is ten years behind ours
  slow_clock.headers = {{"Date", "Thu, 01 Jan 2015 00:00:00 GMT"}};
  f.server->reply("/save_weights", {lost, slow_clock});
  list_checkpoint("2015-01-01T00:00:05Z");

  EXPECT_THAT(trainer.save_state("a").get(),
              IsOkAndHolds(Field(&SaveWeightsResponse::path, HasSubstr("/weights/a"))));
}

TEST_F(SavesTest, SamplerWeightsAreLookedForAmongTheirKind) {
  f.server->reply("/save_weights_for_sampler", {lost, exists});
  list_checkpoint(at(1s));  // a training checkpoint of that name

  EXPECT_THAT(trainer.save_weights_for_sampler("a").get(),
              IsError(ErrorCode::conflict, HasSubstr("name exists")));
}

}  // namespace
}  // namespace tinker::client::saves_test
