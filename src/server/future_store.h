#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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

struct FutureLimits {
  std::chrono::nanoseconds hold = std::chrono::seconds(35);        ///< Of one long poll.
  std::chrono::nanoseconds hold_batch = std::chrono::seconds(30);  ///< Of one retrieve_futures.
  /// A result that was delivered can be had again for so long, then its id answers 410.
  std::chrono::nanoseconds keep_delivered = std::chrono::minutes(10);
  /// A result that nobody fetched is dropped after so long.
  std::chrono::nanoseconds keep_unfetched = std::chrono::hours(24);
  /// Of results that were delivered; beyond it the one delivered first goes first.
  std::size_t max_delivered_bytes = std::size_t{256} << 20U;
  /// Results at least this long are announced by their size first, where the client allows it.
  std::size_t metadata_only_bytes = std::size_t{4} << 20U;
};

/// How an operation ended: the encoded result, or an `Error` for the client, whose `category` says
/// whose fault it was (absent: the server's for `internal` and such, else the user's).
struct EncodedResult {
  std::string body = {};
  bool is_protobuf = false;
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

/// Loop thread only. Waiting costs nothing but its frame: a result wakes those who wait for it.
class FutureStore {
 public:
  struct Spec {
    std::string request_id = {};
    std::string owner = {};  ///< Others get `UnknownId`.
    /// Of samples: whose batched poll announces it.
    std::optional<SamplingSessionFuturesTarget> target = {};
    /// Called when the client gives it up; the operation then ends on its own.
    UniqueFunction<void()> cancel = {};
  };

  FutureStore(std::shared_ptr<async::EventLoop> loop, FutureLimits limits);
  ~FutureStore();
  FutureStore(const FutureStore&) = delete;
  FutureStore& operator=(const FutureStore&) = delete;

  /// The id must be new.
  void open(Spec spec);
  /// The first outcome counts. Unknown ids are ignored.
  void finish(const std::string& request_id, Result<EncodedResult> outcome);
  /// Why it waits, for polls that are answered while it does.
  void set_state(const std::string& request_id, QueueState state, std::string reason);
  /// One long poll. Ends early with the reason of its scope when the client goes away: the result
  /// then does not count as delivered.
  async::Task<PollAnswer> poll(std::string request_id, std::string owner, bool allow_metadata_only);
  /// The answer that `poll` gave has been sent: `Ready` counts as delivered from now on.
  void delivered(const std::string& request_id);
  /// One batched long poll (PROTOCOL 9.38).
  async::Task<FuturesRetrieveResponse> poll_all(FuturesRetrieveRequest request, std::string owner);
  /// Gives it up: pending ones are cancelled and end with `cancelled`.
  void cancel(const std::string& request_id, std::string_view owner);
  /// Ends all pending ones with `reason`.
  void fail_all(const Error& reason);

  [[nodiscard]] std::size_t pending() const noexcept;
  [[nodiscard]] std::size_t kept() const noexcept;  ///< Results.
  [[nodiscard]] std::size_t kept_bytes() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tinker::server
