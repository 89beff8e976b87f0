// `tinker serve`, killed at random moments while a client saves, overwrites and deletes, and while
// checkpoints expire: what was acknowledged is there, whole, and nothing else is. The run takes a
// step between two saves, and each save says which one it is: a checkpoint is the last one of its
// name that was acknowledged, or a later one, and has the weights of that moment.
// TINKER_CRASH_KILLS says how often.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store.h"
#include "support/process.h"
#include "support/raw_http.h"
#include "tinker/clock.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/model.h"
#include "tinker/types/promise.h"
#include "tinker/types/session.h"
#include "tinker/types/tinker_path.h"
#include "wire/json.h"

namespace tinker::checkpoints_test {
namespace {

using testing::RawHttp;
using testing::RawResponse;

/// A server in a process of its own, that is killed.
class Served {
 public:
  explicit Served(const std::string& data_dir, const std::string& log)
      : port_(testing::free_port()), pid_(::fork()) {
    if (pid_ == 0) {
      const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(file, STDOUT_FILENO);
      ::dup2(file, STDERR_FILENO);
      const std::string port = std::to_string(port_);
      ::execl(TINKER_PATH,
              "tinker",
              "serve",
              "--model",
              "tiny=random:1x32,vocab=300",
              "--no-durable",
              "--limit",
              "sweep_time=5ms",
              "--threads",
              "1",
              "--dtype",
              "f32",
              "--data-dir",
              data_dir.c_str(),
              "--port",
              port.c_str(),
              static_cast<char*>(nullptr));
      ::_exit(127);
    }
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  ~Served() {
    kill();
    ::waitpid(pid_, nullptr, 0);
  }

  void kill() const { ::kill(pid_, SIGKILL); }
  /// Whether it listens, within 20 seconds.
  [[nodiscard]] bool is_ready() const {
    for (int i = 0; i < 2000; ++i) {
      if (RawHttp(port_).is_open()) return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_;
  pid_t pid_;
};

/// One connection to one life of the server. Answers of status 0: it has died.
class Client {
 public:
  explicit Client(std::uint16_t port) : http_(port) {}

  RawResponse ask(std::string_view method, const std::string& path, const std::string& body = {}) {
    return http_.ask(method, "/api/v1/" + path, body, "Content-Type: application/json\r\n");
  }
  /// What an operation ended with.
  RawResponse outcome(const std::string& path, const std::string& body) {
    auto answer = ask("POST", path, body);
    const auto future = wire::decode_json<UntypedApiFuture>(answer.body);
    if (answer.status != 200 || !future.ok()) return answer;
    do {
      answer = ask("POST", "retrieve_future", R"({"request_id":")" + future->request_id + "\"}");
    } while (answer.status == 408);
    return answer;
  }
  /// The loss of the run's weights; with `gradients`, for a step to use. Nothing: the server died.
  std::optional<double> loss(const std::string& run, int seq_id, bool gradients) {
    const ForwardBackwardRequest request = {.model_id = run,
                                            .seq_id = seq_id,
                                            .data = {Datum::next_token({5, 9, 12, 200, 31, 7})},
                                            .forward_only = !gradients};
    const auto answer =
        outcome(gradients ? "forward_backward" : "forward", wire::encode_json(request).value());
    if (answer.status == 0) return std::nullopt;
    const auto output = wire::decode_json<ForwardBackwardOutput>(answer.body);
    EXPECT_TRUE(output.ok()) << answer.body;
    return output.ok() ? std::optional(output->loss().value()) : std::nullopt;
  }
  std::string new_session() {
    const auto answer = ask("POST", "create_session", R"({"tags":[],"sdk_version":"0.36.0"})");
    const auto session = wire::decode_json<CreateSessionResponse>(answer.body);
    return session.ok() ? session->session_id : std::string();
  }

 private:
  RawHttp http_;
};

enum class Fate {
  gone,
  there,
  unknown,   // the server died before it answered
  expiring,  // at a moment of `expiries_`
};

/// What is known of a checkpoint.
struct Known {
  Fate fate = Fate::gone;
  int number = 0;  // of the last save that was acknowledged
};

class KilledServer : public ::testing::Test {
 protected:
  /// Trains, saves, overwrites and deletes a few names until the server dies.
  void work(const Served& server) {
    Client client(server.port());
    const std::string run = client.new_session() + ":train:1";
    const auto made =
        client.outcome("create_model",
                       R"({"session_id":")" + run.substr(0, run.find(':')) +
                           R"(","model_seq_id":1,"base_model":"tiny","lora_config":{"rank":4}})");
    ASSERT_EQ(made.status, 200) << made.body;
    const std::jthread killer([&server, life = std::chrono::milliseconds(random_() % 300)] {
      std::this_thread::sleep_for(life);
      server.kill();
    });
    for (int seq_id = 1;;) {
      const bool is_sampler = random_() % 2 == 0;
      const std::string kind = is_sampler ? "sampler_weights" : "weights";
      const std::string name = "n" + std::to_string(random_() % 3);
      auto& [fate, number] = known_["tinker://" + run + "/" + kind + "/" + name];
      if (random_() % 4 == 0 && fate == Fate::there) {
        fate = Fate::unknown;
        const auto deleted =
            client.ask("DELETE", "training_runs/" + run + "/checkpoints/" + kind + "/" + name);
        if (deleted.status == 0) return;
        ASSERT_EQ(deleted.status, 200) << deleted.body;
        fate = Fate::gone;
      } else {
        const auto loss = client.loss(run, seq_id++, true);
        if (!loss) return;
        losses_.push_back(*loss);
        const int saving = static_cast<int>(losses_.size()) - 1;
        // An overwrite that dies leaves the old one or the new one: there, in any case.
        if (fate != Fate::there) fate = Fate::unknown;
        const auto saved = client.outcome(is_sampler ? "save_weights_for_sampler" : "save_weights",
                                          R"({"model_id":")" + run + R"(","path":")" + name +
                                              R"(","overwrite":true,"user_metadata":{"number":")" +
                                              std::to_string(saving) + R"("},"seq_id":)" +
                                              std::to_string(seq_id++) + "}");
        if (saved.status == 0) return;
        ASSERT_THAT(saved.body, ::testing::HasSubstr("tinker://"));
        fate = Fate::there;
        number = saving;
        const auto stepped =
            client.outcome("optim_step",
                           R"({"model_id":")" + run + R"(","adam_params":{"learning_rate":0.01},)" +
                               R"("seq_id":)" + std::to_string(seq_id++) + "}");
        if (stepped.status == 0) return;
        ASSERT_THAT(stepped.body, ::testing::Not(::testing::HasSubstr("error")));
      }
      ++answers_;
    }
  }
  /// Between two lives: makes some checkpoints expire, before the next life or while it works.
  void let_some_expire() {
    const auto store = server::Store::open(folder_.file("data"), tinker::Clock::system());
    ASSERT_THAT(store, testing::IsOk());
    for (auto& [path, known] : known_) {
      if (known.fate != Fate::there || random_() % 2 == 0) continue;
      const std::chrono::milliseconds after(static_cast<int>(random_() % 800) - 200);
      const auto at = std::chrono::floor<std::chrono::microseconds>(now() + after);
      ASSERT_THAT((*store)->set_expiry(TinkerPath::parse(path).value(), at), testing::IsOk());
      known.fate = Fate::expiring;
      expiries_[path] = at;
    }
  }
  [[nodiscard]] static std::chrono::system_clock::time_point now() {
    return std::chrono::system_clock::now();
  }
  [[nodiscard]] static std::map<std::string, Known> list(Client& client) {
    const auto answer = client.ask("GET", "checkpoints?limit=1000");
    const auto list = wire::decode_json<CheckpointsListResponse>(answer.body);
    EXPECT_TRUE(list.ok()) << answer.body;
    std::map<std::string, Known> out;
    if (!list.ok()) return out;
    for (const auto& checkpoint : list->checkpoints) {
      const auto metadata = checkpoint.user_metadata.value_or(StringMap());
      const auto number = metadata.find("number");
      EXPECT_NE(number, metadata.end()) << checkpoint.tinker_path;
      out[checkpoint.tinker_path] = {
          .fate = Fate::there, .number = number != metadata.end() ? std::stoi(number->second) : -1};
    }
    return out;
  }
  /// Lists what there is and loads all of it that stays.
  void check(std::uint16_t port) {
    Client client(port);
    const auto begun = now();
    auto listed = list(client);
    const std::string session = client.new_session();
    int model = 0;
    for (auto& [path, found] : listed) {
      const auto known = known_.find(path);
      ASSERT_TRUE(known != known_.end() && known->second.fate != Fate::gone) << path;
      EXPECT_GE(found.number, known->second.number) << "an overwrite is undone: " << path;
      if (known->second.fate == Fate::expiring) {
        EXPECT_GT(expiries_.at(path), begun) << path;
        found.fate = Fate::expiring;
        continue;
      }
      const bool has_optimizer = path.find("/weights/") != std::string::npos;
      const auto loaded =
          client.outcome("load_weights",
                         R"({"session_id":")" + session + R"(","model_seq_id":)" +
                             std::to_string(++model) + R"(,"path":")" + path + R"(","optimizer":)" +
                             (has_optimizer ? "true" : "false") + "}");
      EXPECT_THAT(loaded.body, ::testing::HasSubstr("model_id")) << path;
      ASSERT_EQ(loaded.status, 200) << path;
      const std::string run = session + ":train:" + std::to_string(model);
      EXPECT_EQ(client.loss(run, 1, false), losses_.at(static_cast<std::size_t>(found.number)))
          << path;
      client.outcome("unload_model", R"({"model_id":")" + run + "\"}");
    }
    for (const auto& [path, known] : known_) {
      EXPECT_TRUE(known.fate != Fate::there || listed.contains(path)) << "lost: " << path;
    }
    EXPECT_TRUE(has_no_orphans(client));
    known_ = std::move(listed);  // what was unknown is known now
  }
  /// Whether there are as many folders as checkpoints, at the latest when the sweeper has been
  /// there.
  [[nodiscard]] bool has_no_orphans(Client& client) const {
    for (int i = 0; i < 2000; ++i) {
      const std::filesystem::directory_iterator folders(folder_.file("data/checkpoints"));
      if (std::distance(begin(folders), end(folders)) == std::ssize(list(client))) return true;
      ::poll(nullptr, 0, 10);
    }
    return false;
  }

  testing::TemporaryFolder folder_;
  std::map<std::string, Known> known_ = {};  // by path
  std::vector<double> losses_ = {};          // of the weights that were saved, by number
  std::map<std::string, std::chrono::system_clock::time_point> expiries_ = {};
  std::mt19937 random_{7};
  int answers_ = 0;
};

TEST_F(KilledServer, KeepsWhatItAcknowledgedAndNothingElse) {
  const char* const asked = std::getenv("TINKER_CRASH_KILLS");
  const int kills = asked != nullptr ? std::stoi(asked) : 10;
  for (int i = 0; i < kills && !HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    {
      const Served server(folder_.file("data"), folder_.file("log"));
      ASSERT_TRUE(server.is_ready());
      check(server.port());
      work(server);
    }
    if (i % 2 == 1) let_some_expire();  // opens the folder: other lives find it as they left it
  }
  const Served server(folder_.file("data"), folder_.file("log"));
  ASSERT_TRUE(server.is_ready());
  check(server.port());
  EXPECT_GT(answers_, kills);  // there was something to lose
  std::ifstream log(folder_.file("log"));
  const std::string said(std::istreambuf_iterator<char>(log), {});
  EXPECT_NE(said.find(" has expired\n"), std::string::npos);
}

}  // namespace
}  // namespace tinker::checkpoints_test
