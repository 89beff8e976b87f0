#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "async/scope.h"
#include "async/task.h"
#include "base/bounded_map.h"
#include "server/access.h"
#include "server/records.h"
#include "tinker/loss.h"
#include "tinker/types/promise.h"

namespace tinker::server {

class Disk;
struct Sampler;

/// A request that was accepted: what its repeat is answered with (PROTOCOL 10, rule 2).
struct Accepted {
  std::optional<std::string> payload_hash = {};  ///< Absent: not known any more, matches all.
  UntypedApiFuture answer = {};
};

/// A sample that was accepted: enough to answer its repeat.
struct SeenSample {
  std::string payload_hash = {};
  std::int64_t num_samples = 0;
};

/// Samples of one session whose repeats are known.
inline constexpr std::size_t kSamplesRemembered = 50'000;

/// What a client opened and keeps alive. Its runs and samplers hang below `scope`.
struct Session {
  SessionRecord record = {};
  std::chrono::steady_clock::time_point last_seen = {};
  std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();
  std::map<std::int64_t, Accepted> models = {};       // by model_seq_id
  std::map<std::int64_t, std::string> samplers = {};  // by sampling_session_seq_id
  /// Those of them with weights in memory only; of each run in the order of saving.
  std::vector<UnnamedSave> ephemeral = {};
  /// Those of them that had such weights, which newer ones replaced; with their base models.
  std::map<std::int64_t, std::string> dropped = {};
  base::BoundedMap<std::string, SeenSample> samples{kSamplesRemembered};  // by request id
  /// Those that keep the files of their checkpoints, oldest first.
  std::deque<std::weak_ptr<Sampler>> holding = {};
  std::map<std::int64_t, Accepted> losses = {};                  // by custom_loss_seq_id
  std::unordered_map<std::string, loss::Formula> formulas = {};  // by loss_id

  [[nodiscard]] bool is_over() const noexcept {
    return record.finish_reason.has_value() || record.has_expired;
  }
};

/// All sessions. Those of an earlier life of the server come back when a client names them, and
/// with `restore`. Loop thread only.
class Sessions {
 public:
  /// Called for a session that has ended: finished, or expired.
  using OnEnd = std::function<void(const std::shared_ptr<Session>&, const Error& reason)>;

  Sessions(std::shared_ptr<async::EventLoop> loop,
           Disk& disk,
           std::shared_ptr<async::Scope> parent);

  /// Sessions that an earlier life of the server left open end like all others: when they are not
  /// seen for a while.
  async::Task<> restore();
  async::Task<std::shared_ptr<Session>> create(SessionRecord record);
  /// Fails with `not_found`; also for a session of somebody else.
  async::Task<std::shared_ptr<Session>> find(std::string session_id, std::string owner);
  /// As `find`, of one that may be used: fails with `expired` when it is over.
  async::Task<std::shared_ptr<Session>> find_open(std::string session_id, std::string owner);
  /// The first reason counts.
  async::Task<> finish(std::shared_ptr<Session> session,
                       SessionFinishReason reason,
                       std::optional<std::string> detail);
  /// Ends those that were not seen for `timeout`.
  async::Task<> expire(std::chrono::nanoseconds timeout);
  void on_end(OnEnd f) { on_end_ = std::move(f); }
  /// Called for a session that was over for a while, or has expired: nobody fetches its results.
  void on_forget(std::function<void(const std::string& session_id)> f) {
    on_forget_ = std::move(f);
  }
  [[nodiscard]] std::size_t open() const noexcept;
  /// Those in memory: open ones, and for a while those that ended.
  [[nodiscard]] std::size_t kept_of(std::string_view owner) const noexcept;
  [[nodiscard]] const std::shared_ptr<async::Scope>& parent() const noexcept { return parent_; }

 private:
  /// The one that is there, if there is one.
  std::shared_ptr<Session> enter(SessionRecord record);

  std::shared_ptr<async::EventLoop> loop_;
  Disk& disk_;
  std::shared_ptr<async::Scope> parent_;
  std::unordered_map<std::string, std::shared_ptr<Session>> sessions_ = {};
  OnEnd on_end_ = {};
  std::function<void(const std::string&)> on_forget_ = {};
};

}  // namespace tinker::server
