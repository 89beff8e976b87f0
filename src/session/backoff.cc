#include "session/backoff.h"

#include <algorithm>
#include <functional>

#include "base/strings.h"

namespace tinker::session {

namespace {
using std::chrono::seconds;
constexpr std::int64_t kLargeSampleBytes = 131'072;
constexpr seconds kShortBackoff{1};
constexpr seconds kLongBackoff{5};
constexpr seconds kRecent{10};
}  // namespace

void Backoff::request(async::TimePoint now, std::int64_t estimated_bytes) {
  const seconds length = estimated_bytes <= kLargeSampleBytes ? kShortBackoff : kLongBackoff;
  until_ = std::max(until_.value_or(now), now + length);
  events_.publish({.name = "backoff",
                   .level = LogLevel::info,
                   .message = "the server asks for fewer samples",
                   .elapsed = *until_ - now});
}

bool Backoff::is_recent(async::TimePoint now) const noexcept {
  return until_ && now - *until_ < kRecent;
}

std::shared_ptr<Backoff> BackoffTable::find_or_make(std::string_view base_url,
                                                    const Secret& credential) {
  std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
  const auto hash = std::hash<std::string>()(base::concat(salt_, credential.expose()));
  auto& entry = entries_[{std::string(base_url), hash}];
  auto backoff = entry.lock();
  if (!backoff) {
    backoff = std::make_shared<Backoff>(events_);
    entry = backoff;
  }
  return backoff;
}

std::shared_ptr<Backoff> shared_backoff(async::RuntimeCore& runtime,
                                        std::string_view base_url,
                                        const Secret& credential) {
  const auto table = runtime.shared<BackoffTable>(
      [&runtime] { return std::make_shared<BackoffTable>(runtime.events(), runtime.uuid4()); });
  return table->find_or_make(base_url, credential);
}

}  // namespace tinker::session
