// What the log of a running server says: a line for each event of a person's interest, and none for
// a request or a step.
#include <chrono>
#include <string>
#include <vector>

#include "hostile_server.h"
#include "support/log_capture.h"
#include "wire/proto.h"

namespace tinker::event_lines_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostileServer;
using testing::kAda;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using namespace std::chrono_literals;

constexpr auto kGenerous = 60s;
constexpr const char* kWrongKey = "tml-eve-0123456789abcdef";

class EventLines : public HostileServer {
 protected:
  EventLines() : EventLines(LogCapture(), options()) {}
  EventLines(LogCapture log, LocalServerOptions options)
      : HostileServer(with_log(std::move(options), log)), log_(std::move(log)) {}
  void TearDown() override {}

  static LocalServerOptions with_log(LocalServerOptions options, const LogCapture& log) {
    options.logger = log.logger(LogLevel::info);
    return options;
  }
  [[nodiscard]] std::vector<std::string> lines(std::string_view part) const {
    std::vector<std::string> out;
    for (const auto& line : log_.lines(part)) out.push_back(line.text);
    return out;
  }
  void expect_ok(const testing::RawResponse& answer) const {
    const auto end = outcome(answer);
    EXPECT_TRUE(end.status == 200 || end.status == 204) << end.status << " " << end.body;
    EXPECT_THAT(end.body, Not(HasSubstr("\"error\""))) << end.body;
  }
  void save(const std::string& run, int number, const std::string& name) const {
    expect_ok(post("save_weights",
                   R"({"model_id":")" + run + R"(","seq_id":)" + std::to_string(number) +
                       R"(,"path":")" + name + "\"}"));
  }

  LogCapture log_;
};

TEST_F(EventLines, TellHowASessionAndItsRunsBeginAndEnd) {
  const auto session = new_session();
  const auto run = new_run(session);
  const auto other =
      outcome(post("create_model",
                   R"({"session_id":")" + session +
                       R"(","model_seq_id":2,"base_model":"tiny","lora_config":{"rank":0}})"));
  expect_ok(post("unload_model", R"({"model_id":")" + run + "\"}"));
  expect_ok(
      post("sessions/" + session + "/finish", R"({"reason":{"type":"success"},"detail":null})"));

  EXPECT_THAT(lines(session),
              ElementsAre("session " + session + " begins, of ada",
                          "run " + run + " is created: tiny, rank 2",
                          AllOf(StartsWith("run " + session + ":train:2 could not be created"),
                                HasSubstr("lora_config.rank: expected 1")),
                          "run " + run + " is unloaded",
                          StartsWith("session " + session + " ended (success)")))
      << other.body;
}

TEST_F(EventLines, TellWhatBecomesOfACheckpoint) {
  const auto run = new_run(new_session());
  const std::string path = "tinker://" + run + "/weights/mine";
  const std::string url = "training_runs/" + run + "/checkpoints/weights/mine";

  save(run, 1, "mine");
  expect_ok(post(url + "/publish", ""));
  expect_ok(ask("DELETE", url + "/publish"));
  expect_ok(ask("DELETE", url));

  EXPECT_THAT(lines(path),
              ElementsAre(AllOf(StartsWith("checkpoint " + path + " is saved: "),
                                Not(HasSubstr(" 0 bytes"))),
                          "checkpoint " + path + " was published by ada",
                          "checkpoint " + path + " was made private by ada",
                          "checkpoint " + path + " was deleted by ada"));
}

TEST_F(EventLines, TellWhichCheckpointARunBeganWith) {
  const auto session = new_session();
  const auto run = new_run(session);
  save(run, 1, "mine");

  expect_ok(post("load_weights",
                 R"({"session_id":")" + session + R"(","model_seq_id":2,"path":"tinker://)" + run +
                     R"(/weights/mine","optimizer":true})"));

  EXPECT_THAT(lines(session + ":train:2"),
              ElementsAre("run " + session + ":train:2 is created: tiny, rank 2, from tinker://" +
                          run + "/weights/mine"));
}

TEST_F(EventLines, SayNothingOfRequestsAndSteps) {
  const auto session = new_session();
  const auto run = new_run(session);
  const auto sampler = new_sampler(session);
  const std::size_t before = log_.lines().size();

  for (int number = 1; number < 10; number += 2) {
    const ForwardBackwardRequest pass = {
        .model_id = run, .seq_id = number, .data = {Datum::next_token({1, 2, 3})}};
    expect_ok(post("forward_backward", wire::encode_proto(pass).value()));
    expect_ok(post("optim_step",
                   R"({"model_id":")" + run + R"(","seq_id":)" + std::to_string(number + 1) +
                       R"(,"adam_params":{"learning_rate":0.001}})"));
    expect_ok(post("session_heartbeat", R"({"session_id":")" + session + "\"}"));
  }
  expect_ok(post("asample",
                 R"({"sampling_session_id":")" + sampler +
                     R"(","seq_id":1,"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
                     R"("sampling_params":{"max_tokens":1},"num_samples":1})"));

  EXPECT_THAT(log_.lines(), SizeIs(before)) << log_.text();
}

TEST_F(EventLines, TellWhereARefusedKeyComesFromButNotTheKey) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(ask("GET", "get_server_capabilities", {}, kWrongKey).status, 401);
  }

  const auto refused = log_.lines("valid key");
  ASSERT_FALSE(refused.empty());
  EXPECT_EQ(refused[0].level, LogLevel::warn);
  EXPECT_EQ(refused[0].text, "a request from 127.0.0.1 is refused: it has no valid key");
  EXPECT_LT(refused.size(), 10) << log_.text();  // one more for every ten seconds
  EXPECT_THAT(log_.text(), Not(HasSubstr("eve")));
}

TEST_F(EventLines, TellWhoLogsInAndOut) {
  expect_ok(post("auth/token", ""));
  expect_ok(ask("DELETE", "auth/apikey/me"));

  EXPECT_THAT(lines("ada logged"),
              ElementsAre("ada logged in", "ada logged out: the key is revoked"));
  EXPECT_THAT(log_.text(), Not(HasSubstr(kAda)));
}

/// Whose sessions end when they are silent for a second.
class EventLinesOfSilence : public EventLines {
 protected:
  EventLinesOfSilence() : EventLines(LogCapture(), short_sessions()) {}
  static LocalServerOptions short_sessions() {
    auto out = options();
    out.session_timeout = 1s;
    return out;
  }
};

TEST_F(EventLinesOfSilence, TellOfASessionThatExpires) {
  const auto session = new_session();
  (void)new_run(session);
  const std::string line =
      "session " + session + " has expired: its heartbeats stopped; runs unloaded: 1";

  EXPECT_TRUE(log_.wait_for(line, kGenerous)) << log_.text();
}

}  // namespace
}  // namespace tinker::event_lines_test
