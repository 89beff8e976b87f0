#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "session/future_poller.h"
#include "tinker/types/optimizer.h"
#include "unit/session/sample_support.h"

namespace tinker::session {

inline constexpr std::string_view kRetrieveFuture = "/api/v1/retrieve_future";
inline constexpr std::string_view kRetrieveFutures = "/api/v1/retrieve_futures";
inline constexpr std::string_view kCancelFuture = "/api/v1/cancel_future";

inline testing::FakeReply json(std::string body) {
  return {.body = std::move(body)};
}
inline testing::FakeReply protobuf(std::string body) {
  return {.body = std::move(body),
          .headers = {{.name = "Content-Type", .value = "application/x-protobuf"}}};
}
inline testing::FakeReply no_connection() {
  return {.error = Error{.code = ErrorCode::connection_failed, .message = "connection refused"}};
}
inline testing::FakeReply done() {
  return json(R"({"metrics":{"loss":1.5}})");
}

inline PollRequest optim_step() {
  return {.request_id = "r-1", .request_type = "OptimStep"};
}
inline PollRequest sample(std::string request_id = "r-1") {
  return {.request_id = std::move(request_id), .request_type = "Sample", .is_protobuf = true};
}

inline SampleResponse a_sample() {
  return {.sequences = {{.stop_reason = StopReason::length, .tokens = {7, 8}}}};
}
inline std::string sample_bytes() {
  return wire::encode_proto(a_sample()).value();
}

/// What was sent to `path`, as the bodies of the requests.
inline std::vector<std::string> bodies(const SessionFixture& fixture, std::string_view path) {
  std::vector<std::string> out;
  for (const auto& sent : fixture.server->sent(path)) {
    out.emplace_back(http::view(sent.request.body));
  }
  return out;
}

/// A header of each request to `path`; "-" where it has none.
inline std::vector<std::string> headers(const SessionFixture& fixture,
                                        std::string_view path,
                                        std::string_view name) {
  std::vector<std::string> out;
  for (const auto& sent : fixture.server->sent(path)) {
    out.emplace_back(sent.request.headers.find(name).value_or("-"));
  }
  return out;
}

/// Polls against a scripted server.
class FuturePollerTest : public ::testing::Test {
 public:
  void script(std::vector<testing::FakeReply> replies) {
    fixture.server->reply(std::string(kRetrieveFuture), std::move(replies));
  }
  Result<OptimStepResponse> poll_json(PollRequest request = optim_step()) {
    return fixture.spawn(poll<OptimStepResponse>(fixture.session, std::move(request))).get();
  }
  Result<SampleResponse> poll_sample(PollRequest request = sample()) {
    return fixture.spawn(poll<SampleResponse>(fixture.session, std::move(request))).get();
  }
  std::vector<std::chrono::milliseconds> poll_times() { return times(fixture, kRetrieveFuture); }

  SessionFixture fixture;
};

/// The events of that name on the local bus while it lives.
class EventCapture {
 public:
  struct Seen {
    std::string message;
    std::string request_id;
    LogLevel level;
    int http_status;
    std::optional<ErrorCode> error;
    std::int64_t attempt;
    std::vector<std::string> texts;  ///< Of the fields.
  };

  EventCapture(const EventBus& bus, std::string name)
      : subscription_(
            bus.subscribe([seen_events = seen_, name = std::move(name)](const Event& event) {
              if (event.name != name) return;
              Seen seen = {.message = std::string(event.message),
                           .request_id = std::string(event.request_id),
                           .level = event.level,
                           .http_status = event.http_status,
                           .error = event.error,
                           .attempt = event.attempt,
                           .texts = {}};
              for (const auto& field : event.fields) {
                if (const auto* text = std::get_if<std::string>(&field.value)) {
                  seen.texts.push_back(*text);
                }
              }
              seen_events->push_back(std::move(seen));
            })) {}

  [[nodiscard]] const std::vector<Seen>& seen() const { return *seen_; }

 private:
  std::shared_ptr<std::vector<Seen>> seen_ = std::make_shared<std::vector<Seen>>();
  Subscription subscription_;
};

}  // namespace tinker::session
