// What owners of one server, and its sessions, are to each other besides hidden
// (hostile_callers_test.cc).
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "hostile_server.h"
#include "support/exposition.h"

namespace tinker::tenants_test {
namespace {

using testing::HostileServer;
using testing::kAda;
using testing::kBob;
using testing::RawHttp;
using testing::RawResponse;
using namespace std::chrono_literals;

constexpr auto kGenerous = 60s;

class Tenants : public HostileServer {
 protected:
  using HostileServer::HostileServer;

  [[nodiscard]] double metric(std::string_view name) const {
    return testing::Exposition::parse(RawHttp(server_.port()).ask("GET", "/metrics").body)
        .value()
        .sum(name);
  }
  [[nodiscard]] double pending() const { return metric("tinker_server_pending_operations"); }
  /// A sample whose prompt begins like no other one.
  [[nodiscard]] std::string begin_sample(const char* key, int number, std::size_t tokens) const {
    std::string prompt = base::concat(number % 256, ",", number / 256);
    for (std::size_t i = 2; i < tokens; ++i) prompt += ",7";
    const auto answer = ask("POST",
                            "asample",
                            R"({"base_model":"tiny","prompt":{"chunks":[{"tokens":[)" + prompt +
                                R"(],"type":"encoded_text"}]},"num_samples":1,)"
                                R"("sampling_params":{"max_tokens":2,"stop":[]}})",
                            key);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return wire::decode_json<UntypedApiFuture>(answer.body).value().request_id;
  }
  [[nodiscard]] RawResponse poll(const char* key, const std::string& id) const {
    return ask("POST", "retrieve_future", R"({"request_id":")" + id + "\"}", key);
  }
};

TEST_F(Tenants, HaveSharesOfTheEngine) {
  constexpr int kSamples = 200;
  std::vector<std::string> hers;
  for (int i = 0; i < kSamples; ++i) hers.push_back(begin_sample(kAda, i, 2000));

  const auto his = begin_sample(kBob, kSamples, 10);
  RawResponse answer = poll(kBob, his);
  while (answer.status == 408) answer = poll(kBob, his);

  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_GT(pending(), kSamples / 2);
  for (const auto& id : hers) (void)post("cancel_future", R"({"request_id":")" + id + "\"}");
}

class ShortSessions : public Tenants {
 protected:
  ShortSessions() : Tenants(with_timeout()) {}
  static LocalServerOptions with_timeout() {
    auto out = options();
    out.session_timeout = 3s;
    return out;
  }
  void TearDown() override {}  // a client's session might not live long enough
};

TEST_F(ShortSessions, TakeTheirSamplesWithThem) {
  const auto sampler = new_sampler(new_session());
  const auto accepted =
      post("asample",
           R"({"sampling_session_id":")" + sampler +
               R"(","seq_id":1,"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
               R"("sampling_params":{"max_tokens":30000,"stop":[]},"num_samples":500})");
  ASSERT_EQ(accepted.status, 200) << accepted.body;
  ASSERT_EQ(pending(), 1);

  const auto until = std::chrono::steady_clock::now() + kGenerous;
  while (pending() > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(50ms);
  }

  EXPECT_EQ(pending(), 0);
  EXPECT_EQ(metric("tinker_server_samplers"), 0);
  EXPECT_EQ(outcome(accepted).status, 410);
  EXPECT_EQ(metric("tinker_server_kept_results"), 0);
}

class OnlyOneUnnamedSave : public Tenants {
 protected:
  OnlyOneUnnamedSave() : Tenants(options({.ephemeral_saves = 1})) {}
};

TEST_F(OnlyOneUnnamedSave, LeavesNoSamplersOfTheOnesBeforeIt) {
  const auto run = new_run(new_session());
  const std::string session = run.substr(0, run.find(':'));
  for (int i = 1; i <= 5; ++i) {
    const auto saved = outcome(post("save_weights_for_sampler",
                                    base::concat(R"({"model_id":")",
                                                 run,
                                                 R"(","seq_id":)",
                                                 i,
                                                 R"(,"sampling_session_seq_id":)",
                                                 i,
                                                 "}")));
    ASSERT_EQ(saved.status, 200) << saved.body;
  }

  EXPECT_EQ(metric("tinker_server_samplers"), 1);
  EXPECT_EQ(ask("GET", "samplers/" + session + ":sample:1").status, 200);
  const auto gone = outcome(post(
      "asample",
      R"({"sampling_session_id":")" + session +
          R"(:sample:1","seq_id":1,"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
          R"("sampling_params":{"max_tokens":1}})"));
  EXPECT_THAT(gone.body, ::testing::HasSubstr("newer ones took their place"));
  EXPECT_EQ(ask("GET", "samplers/" + session + ":sample:6").status, 404);
}

/// Saves without a name under numbers of the client's own.
class OneUnnamedSaveOfARun : public OnlyOneUnnamedSave {
 protected:
  [[nodiscard]] std::string make_run(int number) const {
    const auto made =
        outcome(post("create_model",
                     base::concat(R"({"session_id":")",
                                  session_,
                                  R"(","model_seq_id":)",
                                  number,
                                  R"(,"base_model":"tiny","lora_config":{"rank":2}})")));
    EXPECT_EQ(made.status, 200) << made.body;
    return base::concat(session_, ":train:", number);
  }
  void save(const std::string& run, int seq_id, int number) const {
    const auto saved = outcome(post("save_weights_for_sampler",
                                    base::concat(R"({"model_id":")",
                                                 run,
                                                 R"(","seq_id":)",
                                                 seq_id,
                                                 R"(,"sampling_session_seq_id":)",
                                                 number,
                                                 "}")));
    EXPECT_THAT(saved.body, ::testing::HasSubstr("sampling_session_id"));
  }
  [[nodiscard]] std::string sample(int number) const {
    return outcome(post("asample",
                        base::concat(
                            R"({"sampling_session_id":")",
                            session_,
                            ":sample:",
                            number,
                            R"(","seq_id":1,"prompt":{"chunks":[{"tokens":[1],)"
                            R"("type":"encoded_text"}]},"sampling_params":{"max_tokens":1}})")))
        .body;
  }
  const std::string session_ = new_session();
};

TEST_F(OneUnnamedSaveOfARun, LeavesThoseOfOtherRuns) {
  for (int i = 1; i <= 4; ++i) save(make_run(i), 1, i);

  for (int i = 1; i <= 4; ++i) {
    EXPECT_THAT(sample(i), ::testing::Not(::testing::HasSubstr("error"))) << i;
  }
}

TEST_F(OneUnnamedSaveOfARun, IsTheLastOneWhateverItsNumber) {
  const auto run = make_run(1);
  save(run, 1, 9);
  save(run, 2, 3);

  EXPECT_THAT(sample(9), ::testing::HasSubstr("newer ones took their place"));
  EXPECT_THAT(sample(3), ::testing::Not(::testing::HasSubstr("error")));
}

TEST_F(Tenants, GetTheSessionThatTheyAskedForAgain) {  // PROTOCOL 10, rule 2
  const auto session = [this](const char* key, const std::string& idempotency) {
    const auto answer = ask("POST",
                            "create_session",
                            R"({"tags":[],"sdk_version":"0.36.0","type":"create_session"})",
                            key,
                            "X-Idempotency-Key: " + idempotency + "\r\n");
    return wire::decode_json<CreateSessionResponse>(answer.body).value().session_id;
  };
  const auto first = session(kAda, "a");

  EXPECT_EQ(session(kAda, "a"), first);
  EXPECT_NE(session(kAda, "b"), first);
  EXPECT_NE(session(kBob, "a"), first);
}

}  // namespace
}  // namespace tinker::tenants_test
