// Why a request waits, as its poll is told (PROTOCOL 9.19, R13.1).
#include <algorithm>
#include <string>
#include <vector>

#include "hostile_server.h"
#include "wire/proto.h"

namespace tinker::queue_states_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::HostileServer;
using namespace std::chrono_literals;

/// A state and its reason.
struct Told {
  std::string state = {};
  std::string reason = {};
};
std::ostream& operator<<(std::ostream& out, const Told& told) {
  return out << told.state << ": " << told.reason;
}

MATCHER_P(IsActive, reason, "") {
  *result_listener << arg;
  return arg.state == "active" && arg.reason == reason;
}
MATCHER_P(IsPaused, reason, "") {
  *result_listener << arg;
  return arg.state == "paused_capacity" && arg.reason == reason;
}

class QueueState : public HostileServer {
 protected:
  QueueState() : HostileServer(with_large_model()) {}
  using HostileServer::HostileServer;
  void TearDown() override {}  // what waits is left to the server's end

  /// Beside the tiny one, a model that takes long to load.
  static LocalServerOptions with_large_model() {
    auto out = options({.poll_time = 1ms});
    out.models.push_back({.name = "large", .source = "random:4x512,vocab=20000"});
    return out;
  }

  std::string accepted(const testing::RawResponse& answer) const {
    EXPECT_EQ(answer.status, 200) << answer.body;
    return wire::decode_json<UntypedApiFuture>(answer.body).value().request_id;
  }
  std::string begin_run(const std::string& session, int number, const std::string& model) const {
    return accepted(post("create_model",
                         R"({"session_id":")" + session + R"(","model_seq_id":)" +
                             std::to_string(number) + R"(,"base_model":")" + model +
                             R"(","lora_config":{"rank":2}})"));
  }
  /// Work of a second or more.
  std::string begin_pass(const std::string& run, int number) const {
    std::vector<std::int32_t> tokens(500);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 200);
    const ForwardBackwardRequest request = {
        .model_id = run,
        .seq_id = number,
        .data = std::vector<Datum>(100, Datum::next_token(tokens))};
    return accepted(post("forward_backward", wire::encode_proto(request).value()));
  }
  std::string begin_step(const std::string& run, int number) const {
    return accepted(post("optim_step",
                         R"({"model_id":")" + run + R"(","seq_id":)" + std::to_string(number) +
                             R"(,"adam_params":{"learning_rate":0.001}})"));
  }
  /// What one poll says; an empty state once the result is there.
  Told poll(const std::string& id) const {
    const auto answer = post("retrieve_future", R"({"request_id":")" + id + "\"}");
    if (answer.status != 408) return {};
    const auto told = wire::decode_json<TryAgainResponse>(answer.body).value();
    return {std::string(told.queue_state.text()), told.queue_state_reason.value_or("")};
  }
  /// All that polls say until the result is there.
  std::vector<Told> poll_to_the_end(const std::string& id) const {
    std::vector<Told> out;
    while (true) {
      auto told = poll(id);
      if (told.state.empty()) return out;
      out.push_back(std::move(told));
    }
  }
};

TEST_F(QueueState, NamesTheNumberThatAHeldRequestWaitsFor) {
  const auto run = new_run(new_session());
  const auto third = begin_pass(run, 3);
  const auto fourth = begin_pass(run, 4);

  EXPECT_THAT(poll(third), IsActive("waits for request 1 of this model"));
  EXPECT_THAT(poll(fourth), IsActive("waits for request 1 of this model"));

  begin_pass(run, 1);
  EXPECT_THAT(poll(fourth), IsActive("waits for request 2 of this model"));
}

TEST_F(QueueState, TellsThatTheModelIsBeingMade) {
  const auto session = new_session();
  const auto creation = begin_run(session, 1, "large");
  const auto step = begin_step(session + ":train:1", 1);

  EXPECT_THAT(poll(creation), IsPaused("loading large"));
  EXPECT_THAT(poll(step), IsPaused("waits for its model: loading large"));
}

TEST_F(QueueState, TellsASampleThatTheModelIsBeingLoaded) {
  const auto sample = accepted(
      post("asample",
           R"({"base_model":"large","prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
           R"("sampling_params":{"max_tokens":1},"num_samples":1})"));

  EXPECT_THAT(poll(sample), IsPaused("loading large"));
}

TEST_F(QueueState, CountsTheRequestsOfTheModelThatComeBefore) {
  const auto run = new_run(new_session());
  begin_pass(run, 1);
  begin_pass(run, 2);
  const auto step = begin_step(run, 3);

  EXPECT_THAT(poll(step), IsActive("waits for the engine: 2 requests of this model before it"));
}

TEST_F(QueueState, TellsThatOthersShareTheEngine) {
  const auto session = new_session();
  const auto run = new_run(session);
  const auto other = begin_run(session, 2, "tiny");
  while (!poll(other).state.empty()) {
  }
  const auto told_beside_another = [&](int number) {
    const auto first = begin_pass(run, number);
    const auto second = begin_pass(session + ":train:2", number);
    auto out = poll(second);
    (void)poll_to_the_end(first);
    (void)poll_to_the_end(second);
    return out;
  };
  Told told;
  // On a busy machine the poll may come when its pass is being computed.
  for (int number = 1; number <= 20 && told.reason.empty(); ++number) {
    told = told_beside_another(number);
  }

  EXPECT_THAT(told, IsActive("shares the engine with 1 other training run and 0 samples"));
}

TEST_F(QueueState, HasNoReasonForWhatIsBeingComputed) {
  const auto run = new_run(new_session());

  EXPECT_THAT(poll(begin_pass(run, 1)), IsActive(""));
}

/// Whose cache holds 2048 tokens.
class QueueStateOfALittleCache : public QueueState {
 protected:
  QueueStateOfALittleCache() : QueueState(with_little_memory()) {}
  static LocalServerOptions with_little_memory() {
    auto out = options({.poll_time = 1ms});
    out.memory_bytes = std::size_t{1} << 20U;
    return out;
  }

  std::string begin_sample(const std::string& sampler, int number) const {
    std::string tokens;
    for (int i = 0; i < 1000; ++i)
      tokens += (i > 0 ? "," : "") + std::to_string((i * number) % 200);
    return accepted(
        post("asample",
             R"({"sampling_session_id":")" + sampler + R"(","seq_id":)" + std::to_string(number) +
                 R"(,"prompt":{"chunks":[{"tokens":[)" + tokens +
                 R"(],"type":"encoded_text"}]},"sampling_params":{"max_tokens":900,"stop":[]},)"
                 R"("num_samples":1})"));
  }
};

TEST_F(QueueStateOfALittleCache, TellsThatASampleHasNoRoom) {
  const auto sampler = new_sampler(new_session());
  std::vector<std::string> samples;
  for (int number = 1; number <= 6; ++number) samples.push_back(begin_sample(sampler, number));

  const auto told = poll_to_the_end(samples.back());

  EXPECT_THAT(told,
              Contains(AllOf(Field(&Told::state, "paused_capacity"),
                             Field(&Told::reason, HasSubstr("room in the cache")))));
}

}  // namespace
}  // namespace tinker::queue_states_test
