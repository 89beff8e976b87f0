#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/client_fixture.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/weights.h"

namespace tinker::client {

/// A server that makes models and checkpoints, loses them when told to, and can be asked about
/// them.
struct TrainingServer : ClientFixture {
  struct Event {
    std::string name = {};
    std::int64_t attempt = 0;
    std::map<std::string, std::string> fields = {};
    std::optional<ErrorCode> error = {};
  };

  TrainingServer() : ClientFixture(R"({"create_model_via_load_weights":true})") {
    server->reply("/create_session",
                  {{.body = R"({"session_id":"s-1"})"}, {.body = R"({"session_id":"s-2"})"}});
    server->handle("/create_model", [this](const http::Request&) {
      ++models;
      return accept();
    });
    server->handle("/load_weights", [this](const http::Request& request) { return load(request); });
    server->handle("/save_weights", [this](const http::Request& request) { return save(request); });
    server->handle("/optim_step", [this](const http::Request& request) { return step(request); });
    server->handle("/retrieve_future", [this](const http::Request& request) {
      const auto asked = wire::decode_json<FutureRetrieveRequest>(*request.body);
      const auto found = answers.find(asked->request_id);
      return found == answers.end() ? result(request) : found->second;
    });
    server->handle("/api/v1/checkpoints", [this](const http::Request&) { return list(); });
    for (const char* session : {"s-1", "s-2"}) {
      for (int model = 0; model < 10; ++model) {
        const std::string id = session + std::string(":train:") + std::to_string(model);
        server->handle("/training_runs/" + id,
                       [this, id](const http::Request&) { return describe_run(id); });
      }
    }
    events_ = time.runtime().events().subscribe([this](const tinker::Event& event) {
      if (!event.name.starts_with("recovery.") && !event.name.starts_with("checkpoint.")) return;
      Event kept = {
          .name = std::string(event.name), .attempt = event.attempt, .error = event.error};
      for (const auto& field : event.fields) {
        const auto* text = std::get_if<std::string>(&field.value);
        kept.fields.emplace(field.name,
                            text ? *text : std::to_string(std::get<std::int64_t>(field.value)));
      }
      events.push_back(std::move(kept));
    });
  }

  // How it fails: the answers to the next requests of a kind, an empty body to accept them.
  std::deque<testing::FakeReply> loads = {};
  std::deque<testing::FakeReply> saves = {};
  std::deque<testing::FakeReply> steps = {};
  std::deque<testing::FakeReply> deletes = {};
  std::deque<testing::FakeReply> polls = {};
  std::set<std::string> corrupted = {};

  // What happened.
  int models = 0;
  std::vector<LoadWeightsRequest> loaded = {};
  std::vector<SaveWeightsRequest> saved = {};
  std::vector<std::string> deleted = {};
  std::vector<std::string> stepped = {};  // model of each step
  std::vector<Checkpoint> checkpoints = {};
  std::vector<Event> events = {};
  std::map<std::string, testing::FakeReply> answers = {};  // by request id

  [[nodiscard]] std::vector<std::string> event_names() const {
    std::vector<std::string> out;
    for (const auto& event : events) out.push_back(event.name);
    return out;
  }
  [[nodiscard]] std::vector<std::string> paths_loaded() const {
    std::vector<std::string> out;
    for (const auto& request : loaded) out.push_back(request.path);
    return out;
  }
  [[nodiscard]] std::vector<std::string> names_saved() const {
    std::vector<std::string> out;
    for (const auto& request : saved) out.push_back(*request.path);
    return out;
  }
  /// When requests to paths that end so came.
  [[nodiscard]] std::vector<std::chrono::nanoseconds> times(std::string_view path) const {
    std::vector<std::chrono::nanoseconds> out;
    for (const auto& sent : server->sent(path)) out.push_back(sent.at);
    return out;
  }
  /// One that was there before.
  void add_checkpoint(const std::string& model, const std::string& name, StringMap metadata) {
    const auto now = DateTime::Instant(std::chrono::seconds(checkpoints.size()));
    checkpoints.push_back({.checkpoint_id = "weights/" + name,
                           .checkpoint_type = CheckpointType::training,
                           .time = now,
                           .tinker_path = "tinker://" + model + "/weights/" + name,
                           .user_metadata = std::move(metadata)});
    const auto path = checkpoints.back().tinker_path;
    server->handle(model + "/checkpoints/weights/" + name,
                   [this, path](const http::Request&) { return remove(path); });
  }

 private:
  static std::optional<testing::FakeReply> next(std::deque<testing::FakeReply>& script) {
    if (script.empty()) return std::nullopt;
    auto reply = std::move(script.front());
    script.pop_front();
    if (reply.status == 200 && reply.body.empty() && !reply.error && !reply.never) {
      return std::nullopt;
    }
    return reply;
  }
  /// Accepts a request; its result is `answer`.
  testing::FakeReply accept_with(testing::FakeReply answer) {
    auto reply = accept();
    answers.emplace(wire::decode_json<UntypedApiFuture>(reply.body)->request_id, std::move(answer));
    return reply;
  }

  testing::FakeReply load(const http::Request& request) {
    loaded.push_back(wire::decode_json<LoadWeightsRequest>(*request.body).value());
    if (auto reply = next(loads)) return *std::move(reply);
    return accept_with({.body = R"({"path":"x"})", .delay = load_time});
  }
  testing::FakeReply save(const http::Request& request) {
    saved.push_back(wire::decode_json<SaveWeightsRequest>(*request.body).value());
    if (auto reply = next(saves)) return *std::move(reply);
    const auto& made = saved.back();
    add_checkpoint(made.model_id, *made.path, made.user_metadata.value_or(StringMap()));
    return accept_with({.body = R"({"path":")" + checkpoints.back().tinker_path + "\"}"});
  }
  testing::FakeReply step(const http::Request& request) {
    stepped.push_back(wire::decode_json<OptimStepRequest>(*request.body)->model_id);
    if (auto reply = next(steps)) return *std::move(reply);
    return accept();
  }
  testing::FakeReply remove(const std::string& path) {
    deleted.push_back(path);
    if (auto reply = next(deletes)) return *std::move(reply);
    std::erase_if(checkpoints, [&](const auto& one) { return one.tinker_path == path; });
    return {.body = "{}"};
  }
  testing::FakeReply list() const {
    const auto count = static_cast<std::int64_t>(checkpoints.size());
    return {.body = wire::encode_json(CheckpointsListResponse{
                                          .checkpoints = checkpoints,
                                          .cursor = Cursor{.limit = 100, .total_count = count}})
                        .value()};
  }
  testing::FakeReply describe_run(const std::string& id) {
    if (auto reply = next(polls)) return *std::move(reply);
    TrainingRun run = {.training_run_id = id,
                       .base_model = "llama",
                       .model_owner = "me",
                       .corrupted = corrupted.contains(id)};
    for (const auto& one : checkpoints) {
      if (one.tinker_path.starts_with("tinker://" + id + "/")) run.last_checkpoint = one;
    }
    return {.body = wire::encode_json(run).value()};
  }

 public:
  std::chrono::nanoseconds load_time = {};

 private:
  Subscription events_;
};

}  // namespace tinker::client
