#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "async/event_loop.h"
#include "async/runtime_core.h"
#include "tinker/events.h"
#include "tinker/secret.h"

namespace tinker::session {

/// Until when a server wants no more samples (R10.5, R10.6). Loop thread only.
class Backoff {
 public:
  explicit Backoff(EventBus events) : events_(std::move(events)) {}

  /// The server turned a sample of that size down at `now`: 1 s, or 5 s when it was a large one. A
  /// short back-off never ends a longer one early.
  void request(async::TimePoint now, std::int64_t estimated_bytes);

  /// When the last one ends or ended; nothing when there was none.
  [[nodiscard]] std::optional<async::TimePoint> until() const noexcept { return until_; }
  [[nodiscard]] bool is_active(async::TimePoint now) const noexcept {
    return until_ && now < *until_;
  }
  /// From its beginning until 10 s after its end.
  [[nodiscard]] bool is_recent(async::TimePoint now) const noexcept;

 private:
  EventBus events_;
  std::optional<async::TimePoint> until_ = {};
};

/// The back-offs of one runtime: one per server and credential, for as long as somebody holds it.
/// Credentials are kept as salted hashes only. Loop thread only.
class BackoffTable {
 public:
  BackoffTable(EventBus events, std::string salt)
      : events_(std::move(events)), salt_(std::move(salt)) {}

  /// `base_url` is normalised.
  std::shared_ptr<Backoff> find_or_make(std::string_view base_url, const Secret& credential);
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  EventBus events_;
  std::string salt_;
  std::map<std::pair<std::string, std::size_t>, std::weak_ptr<Backoff>> entries_ = {};
};

/// What all holders of `runtime` share that talk to `base_url` (normalised) with `credential`: the
/// one that the user gave, not a token that was made from it.
std::shared_ptr<Backoff> shared_backoff(async::RuntimeCore& runtime,
                                        std::string_view base_url,
                                        const Secret& credential);

}  // namespace tinker::session
