#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/http.h"
#include "tinker/runtime.h"

namespace tinker::testing {

/// What a `FakeTransport` answers.
struct FakeReply {
  int status = 200;
  std::string body = {};
  http::Headers headers = {};
  std::chrono::nanoseconds delay = {};  ///< In the runtime's time, which may be virtual.
  std::optional<Error> error = {};  ///< Instead of an answer; behind `body` where a sink takes it.
  bool never = false;               ///< No answer at all, until the request is cancelled.
  bool no_length = false;           ///< Without a Content-Length header.
};

/// A server for tests: answers by path, remembers what it was asked and when.
///
///     auto server = std::make_shared<FakeTransport>(time.runtime());
///     server->reply("/api/v1/asample", {{.status = 429}, {.body = R"({"request_id":"r"})"}});
///
/// Thread-safe.
class FakeTransport final : public http::Transport {
 public:
  using Handler = std::function<FakeReply(const http::Request& request)>;
  struct Sent {
    http::Request request = {};
    std::string path = {};             ///< Without the query.
    std::chrono::nanoseconds at = {};  ///< When it came, in time since the transport was made.
    bool is_cancelled = false;
  };

  explicit FakeTransport(const Runtime& runtime);
  ~FakeTransport() override;

  /// Requests whose path ends with `path` are answered by `handler`; of several, by the one set
  /// last. Handlers run on the loop. What nobody handles is answered 404.
  void handle(std::string path, Handler handler);
  /// Answers one after the other; the last one stays.
  void reply(std::string path, std::vector<FakeReply> replies);

  /// All requests so far, or those whose path ends with `path`, in order.
  [[nodiscard]] std::vector<Sent> sent(std::string_view path = {}) const;
  /// How many wait for their answer.
  [[nodiscard]] std::size_t in_flight() const;
  [[nodiscard]] std::vector<std::uint64_t> closed_channels() const;

  Future<http::Response> send(http::Request request) override;
  void close_channel(std::uint64_t channel) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tinker::testing
