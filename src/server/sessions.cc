#include "server/sessions.h"

#include <utility>
#include <vector>

#include "server/disk.h"
#include "server/errors.h"

namespace tinker::server {

Sessions::Sessions(std::shared_ptr<async::EventLoop> loop,
                   Disk& disk,
                   std::shared_ptr<async::Scope> parent)
    : loop_(std::move(loop)), disk_(disk), parent_(std::move(parent)) {}

std::shared_ptr<Session> Sessions::enter(SessionRecord record) {
  const auto [found, is_new] = sessions_.try_emplace(record.session_id);
  if (is_new) {
    found->second = std::make_shared<Session>();
    found->second->record = std::move(record);
    found->second->last_seen = loop_->now();
    found->second->scope->attach(parent_);
  }
  return found->second;
}

async::Task<> Sessions::restore() {
  auto stored = disk_.run([](Store& store) { return store.open_sessions(); });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto records, co_await wait);
  for (auto& record : records) enter(std::move(record));
  co_return Result<void>();
}

async::Task<std::shared_ptr<Session>> Sessions::create(SessionRecord record) {
  auto stored = disk_.run([record](Store& store) { return store.add_session(record); });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(co_await wait);
  co_return enter(std::move(record));
}

async::Task<std::shared_ptr<Session>> Sessions::find(std::string session_id, std::string owner) {
  const auto found = sessions_.find(session_id);
  auto session = found != sessions_.end() ? found->second : nullptr;
  if (!session) {
    auto stored = disk_.run([session_id](Store& store) { return store.find_session(session_id); });
    auto wait = async::until(std::move(stored));
    TINKER_CO_TRY(auto record, co_await wait);
    if (!record) co_return no_such("session", session_id);
    session = enter(*std::move(record));  // another request may have been faster
  }
  if (session->record.owner != owner) co_return no_such("session", session_id);
  co_return session;
}

async::Task<std::shared_ptr<Session>> Sessions::find_open(std::string session_id,
                                                          std::string owner) {
  auto search = find(session_id, std::move(owner));
  TINKER_CO_TRY(auto session, co_await std::move(search));
  if (session->is_over()) {
    co_return is_over(
        "session",
        session_id,
        session->record.has_expired ? "has expired: its heartbeats stopped" : "is finished");
  }
  session->last_seen = loop_->now();
  co_return session;
}

async::Task<> Sessions::finish(std::shared_ptr<Session> session,
                               SessionFinishReason reason,
                               std::optional<std::string> detail) {
  if (session->is_over()) co_return Result<void>();
  session->record.finish_reason = reason;
  session->record.finish_detail = std::move(detail);
  if (on_end_) on_end_(session, is_over("session", session->record.session_id, "is finished"));
  auto stored =
      disk_.run([record = session->record](Store& store) { return store.update_session(record); });
  auto wait = async::until(std::move(stored));
  co_return co_await wait;
}

async::Task<> Sessions::expire(std::chrono::nanoseconds timeout) {
  std::vector<SessionRecord> expired;
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    const auto session = it->second;
    if (loop_->now() - session->last_seen < timeout) {
      ++it;
      continue;
    }
    it = sessions_.erase(it);
    if (on_forget_) on_forget_(session->record.session_id);
    if (session->is_over()) continue;
    session->record.has_expired = true;
    const Error reason =
        is_over("session", session->record.session_id, "has expired: its heartbeats stopped");
    if (on_end_) on_end_(session, reason);
    session->scope->cancel(reason);
    expired.push_back(session->record);
  }
  if (expired.empty()) co_return Result<void>();
  auto stored = disk_.run([expired](Store& store) -> Result<void> {
    for (const auto& record : expired) TINKER_TRY(store.update_session(record));
    return {};
  });
  auto wait = async::until(std::move(stored));
  co_return co_await wait;
}

std::size_t Sessions::kept_of(std::string_view owner) const noexcept {
  std::size_t count = 0;
  for (const auto& [id, session] : sessions_) count += session->record.owner == owner ? 1 : 0;
  return count;
}

std::size_t Sessions::open() const noexcept {
  std::size_t count = 0;
  for (const auto& [id, session] : sessions_) count += session->is_over() ? 0 : 1;
  return count;
}

}  // namespace tinker::server
