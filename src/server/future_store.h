#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "async/event_loop.h"
#include "async/task.h"
#include "tinker/error.h"
#include "tinker/types/promise.h"
#include "tinker/unique_function.h"

/// Results of accepted operations, from the moment they are accepted until the client has them
/// (PROTOCOL 9.19, 9.38; SERVER 1.4, 2.4).
namespace tinker::server {

class FutureTable;

struct FutureLimits {
  std::chrono::nanoseconds hold = std::chrono::seconds(35);        ///< Of one long poll.
  std::chrono::nanoseconds hold_batch = std::chrono::seconds(30);  ///< Of one retrieve_futures.
  /// A result that was delivered can be had again for so long, then its id answers 410.
  std::chrono::nanoseconds keep_delivered = std::chrono::minutes(10);
  /// A result that nobody fetched is dropped after so long.
  std::chrono::nanoseconds keep_unfetched = std::chrono::hours(24);
  /// The same for results that no session owns: nothing else ends them.
  std::chrono::nanoseconds keep_sessionless = std::chrono::hours(1);
  /// Of all owners; beyond it `check_room` refuses those who hold more than their share.
  std::size_t max_pending = 100'000;
  std::size_t max_unfetched_bytes = std::size_t{2} << 30U;
  /// Of results that were delivered; beyond it the one delivered first goes first.
  std::size_t max_delivered_bytes = std::size_t{256} << 20U;
  /// Results at least this long are announced by their size first, where the client allows it.
  std::size_t metadata_only_bytes = std::size_t{4} << 20U;
  /// Ids that answer `Expired`; the oldest is forgotten first and answers `UnknownId`.
  std::size_t max_expired_ids = 100'000;
};

/// How an operation ended: the encoded result, or an `Error` for the client, whose `category` says
/// whose fault it was (absent: the server's for `internal` and such, else the user's).
struct EncodedResult {
  std::string body = {};
  bool is_protobuf = false;
  bool is_sample = false;  ///< Of protobuf: a SampleResponse, else a ForwardBackwardOutput.
};

/// What a poll is answered with.
struct StillPending {
  QueueState state = QueueState::active;
  std::string reason = {};
};
struct TooLarge {  ///< The result is there, but the client shall ask for it again.
  std::size_t bytes = 0;
};
struct Ready {
  std::shared_ptr<const EncodedResult> result;
};
struct Expired {};  ///< It was here (the id says so) and is not any more.
struct UnknownId {};
using PollAnswer = std::variant<StillPending, TooLarge, Ready, Error, Expired, UnknownId>;

/// Every accepted operation has an entry here until its result was delivered and expired. The end
/// of an operation wakes exactly those who wait for it. Loop thread only.
class FutureStore {
 public:
  struct Spec {
    std::string request_id = {};
    std::string owner = {};  ///< Others get `UnknownId`.
    /// Of samples: whose batched poll announces it.
    std::optional<SamplingSessionFuturesTarget> target = {};
    bool has_session = true;  ///< What the session leaves is dropped when the session is forgotten.
    /// Called once when the client gives it up while it is pending. May call the store.
    UniqueFunction<void()> cancel = {};
    /// Why the request waits: asked when a poll ends before it does and `set_state` gave no reason.
    UniqueFunction<StillPending(std::string_view request_id)> why = {};
  };

  FutureStore(std::shared_ptr<async::EventLoop> loop, FutureLimits limits);
  ~FutureStore();
  FutureStore(const FutureStore&) = delete;
  FutureStore& operator=(const FutureStore&) = delete;

  /// Whether the id was new: nothing happens if it is in use. One that has expired may be used
  /// again.
  bool open(Spec spec);
  /// Whether the owner may begin one more. Fails with `rate_limited` where all owners together have
  /// too much that is pending or not fetched, and this one more than its share.
  [[nodiscard]] Result<void> check_room(const std::string& owner) const;
  /// The first outcome counts. Ids that are unknown, or were given up, are ignored.
  void finish(const std::string& request_id, Result<EncodedResult> outcome);
  /// Why it waits, for polls that are answered while it does.
  void set_state(const std::string& request_id, QueueState state, std::string reason);
  /// What a poll that ended now would be told of a pending one.
  [[nodiscard]] StillPending state(std::string_view request_id) const;
  /// One long poll (PROTOCOL 9.19). Ends early with the reason of its scope when the client goes
  /// away: the result then does not count as delivered.
  async::Task<PollAnswer> poll(std::string request_id, std::string owner, bool allow_metadata_only);
  /// The `Ready` or the `Error` that `poll` gave has been sent: it counts as delivered from now on.
  void delivered(const std::string& request_id);
  /// A result that its client may still ask for: it was not delivered, or not longer ago than
  /// `ask_again`. Null while it is pending, and for unknown ids.
  [[nodiscard]] std::shared_ptr<const Result<EncodedResult>> outcome(
      const std::string& request_id, std::chrono::nanoseconds ask_again) const;
  /// Whether it was accepted, and how it ended was not delivered.
  [[nodiscard]] bool is_awaited(const std::string& request_id) const;
  /// One batched long poll (PROTOCOL 9.38). Cursors begin at the wall time in microseconds, so
  /// those of a restarted server follow the ones its clients have.
  async::Task<FuturesRetrieveResponse> poll_all(FuturesRetrieveRequest request, std::string owner);
  /// The client gives it up (PROTOCOL 9.39): a pending operation is told so, a result is dropped.
  /// From then on the id answers `Expired`. Ids that are unknown or another's are ignored.
  void cancel(const std::string& request_id, std::string_view owner);
  /// Drops all whose ids begin with `prefix`, and gives up those that are pending. Takes a look at
  /// everything.
  void forget(std::string_view prefix);
  /// Answers all polls, and those to come, without waiting any more.
  void end_polls();
  /// Ends all pending ones with `reason`.
  void fail_all(const Error& reason);

  [[nodiscard]] std::size_t pending() const noexcept;
  [[nodiscard]] std::size_t kept() const noexcept;        ///< Results.
  [[nodiscard]] std::size_t kept_bytes() const noexcept;  ///< Of results, with their bookkeeping.
  [[nodiscard]] std::size_t waiting() const noexcept;     ///< Single polls that are held.

 private:
  std::shared_ptr<FutureTable> table_;  // shared with the polls that are held
};

}  // namespace tinker::server
