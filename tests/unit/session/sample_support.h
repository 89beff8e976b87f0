#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "session/json_call.h"
#include "support/session_fixture.h"
#include "tinker/types/promise.h"
#include "tinker/types/telemetry.h"
#include "wire/json.h"

namespace tinker::session {

inline constexpr std::string_view kAsample = "/api/v1/asample";

inline testing::FakeReply accepted() {
  return {.body = R"({"request_id":"r1"})"};
}
inline testing::FakeReply refused(int status) {
  return {.status = status, .body = R"({"detail":"no"})"};
}

/// A submission as the sampling client makes it, less the prompt.
inline async::Task<UntypedApiFuture> asample(std::shared_ptr<SessionCore> session,
                                             std::weak_ptr<api::AttemptObserver> observer = {}) {
  return call_json<UntypedApiFuture>(std::move(session),
                                     api::Call{.path = std::string(kAsample),
                                               .pool = api::PoolKind::sample,
                                               .max_retries = 0,
                                               .observer = std::move(observer)});
}

/// The results of `start(0)` to `start(count - 1)`.
template <typename Start>
auto many(int count, Start start) {
  std::vector<decltype(start(0))> out;
  out.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) out.push_back(start(i));
  return out;
}

/// When the requests to `path` came, since the fixture was made.
inline std::vector<std::chrono::milliseconds> times(const SessionFixture& fixture,
                                                    std::string_view path = kAsample) {
  std::vector<std::chrono::milliseconds> out;
  for (const auto& sent : fixture.server->sent(path)) {
    out.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(sent.at));
  }
  return out;
}

/// The most requests at once, for a server that takes `duration` to answer each.
inline std::size_t most_at_once(const std::vector<std::chrono::milliseconds>& times,
                                std::chrono::milliseconds duration) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto first = std::ranges::find_if(times, [&](auto t) { return t > times[i] - duration; });
    most = std::max(most, i + 1 - static_cast<std::size_t>(first - times.begin()));
  }
  return most;
}

/// What telemetry was told under `name`, after its next flush.
inline std::vector<GenericEvent> reported(SessionFixture& fixture, std::string_view name) {
  fixture.time.advance(std::chrono::seconds(11));
  std::vector<GenericEvent> out;
  for (const auto& sent : fixture.server->sent("/api/v1/telemetry")) {
    const auto batch = wire::decode_json<TelemetrySendRequest>(http::view(sent.request.body));
    for (const auto& event : batch.value().events) {
      const auto* generic = std::get_if<GenericEvent>(&event);
      if (generic != nullptr && generic->event_name == name) out.push_back(*generic);
    }
  }
  return out;
}

/// The names of the members, in order.
inline std::vector<std::string> names_of(const JsonObject& object) {
  std::vector<std::string> out;
  for (const auto& [name, value] : object) out.push_back(name);
  return out;
}

inline Json member(const JsonObject& object, std::string_view name) {
  for (const auto& [key, value] : object) {
    if (key == name) return value;
  }
  return "there is no such member";
}

}  // namespace tinker::session
