#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>

#include "async/task.h"
#include "base/bounded_map.h"
#include "session/pacing.h"
#include "session/session_core.h"
#include "tinker/future.h"
#include "tinker/types/promise.h"

namespace tinker::session {

/// What a batched poll says about one request. The payload or the error is fetched with
/// `poll_future`.
struct Completion {
  enum class Kind {
    finished,
    failed,
    unknown,  ///< Batching does not tell: poll for this request alone.
  };
  Kind kind = Kind::unknown;
  std::int64_t payload_bytes = 0;  ///< 0 when not known.

  friend bool operator==(const Completion&, const Completion&) = default;
};

/// One long poll for all requests of a sampling client (R6.13–R6.24), while somebody waits or there
/// is something to report.
///
/// Where the official one would disable its client for good (R6.20, D4), this one sends those who
/// wait to poll one by one and tries again for requests that come after 30 s; after three such
/// failures in a row it stays with single polls. Loop thread only; may die on any thread.
class BatchPoller : public std::enable_shared_from_this<BatchPoller> {
 public:
  BatchPoller(std::shared_ptr<SessionCore> session,
              std::string sampling_session_id,
              std::int64_t clone_id);

  /// Until the request is done, or batching cannot tell. One at a time for each request.
  async::Task<Completion> wait(std::string request_id);
  /// The result (or the error) of the request has arrived: the server may drop it (R6.21).
  void retrieved(std::string request_id);
  /// Ends everyone who waits, and later ones, with `reason` (D1).
  void close(Error reason);

  /// Completions nobody has asked for yet; bounded.
  [[nodiscard]] std::size_t stored() const noexcept { return stored_.size(); }

 private:
  [[nodiscard]] bool has_work() const noexcept { return !waiters_.empty() || !retrieved_.empty(); }
  [[nodiscard]] bool is_single() const noexcept;
  void start();
  static async::Task<> run(std::shared_ptr<BatchPoller> self);
  static async::Task<FuturesRetrieveResponse> ask(std::shared_ptr<BatchPoller> self);
  std::chrono::nanoseconds after_answer(const FuturesRetrieveResponse& answer,
                                        std::chrono::nanoseconds took);
  bool deliver(const std::string& request_id, Completion completion);
  std::optional<std::chrono::nanoseconds> retry_delay(const Error& error);
  void fall_back(const Error& error);
  /// Tells those who wait how the last poll failed; null: that it did not.
  void note(const std::shared_ptr<const async::Failure>& failure);
  void end_waiters(const Result<Completion>& outcome);

  std::shared_ptr<SessionCore> session_;
  std::string sampling_session_id_;
  std::int64_t clone_id_;

  std::int64_t cursor_ = 0;
  struct Waiter {
    Promise<Completion> promise;
    async::Scope* scope;  // of the one who waits, who takes the entry out before it ends
  };
  std::unordered_map<std::string, Waiter> waiters_ = {};
  std::set<std::string> retrieved_ = {};              // until a poll that told the server succeeded
  base::BoundedMap<std::string, Completion> stored_;  // completions that came before their waiter
  base::BoundedMap<std::string, std::monostate>
      uninteresting_;  // nobody will ask for their completions (D18)
  int bad_request_retries_ = 0;
  int failures_in_row_ = 0;
  std::optional<async::TimePoint> single_until_ = {};
  Pacing pacing_;
  std::optional<Future<void>> task_ = {};
  std::optional<Error> closed_ = {};
};

}  // namespace tinker::session
