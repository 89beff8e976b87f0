#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/runtime_core.h"
#include "async/task.h"
#include "tinker/detail/mutex.h"
#include "tinker/future.h"

namespace tinker::client {

/// Consecutive request ids of one training client.
struct IdRange {
  std::int64_t first = 0;
  std::int64_t count = 1;

  [[nodiscard]] std::int64_t end() const noexcept { return first + count; }
};

/// The error of a request that is not sent because `why` failed with `cause`.
Error not_sent(std::string_view why, const Error& cause);

/// Hands out the request ids of one training client (R7.1) and lets the requests leave in that
/// order (R7.2, R7.3).
///
/// Where the official client blocks for ever (D2, D3), this one goes on: a request that fails for
/// good ends those behind it that were called before the failure and have not left, with
/// `predecessor_failed`, so that no optimizer step runs on half a batch. Later ones leave normally.
class Sequencer : public std::enable_shared_from_this<Sequencer> {
 public:
  class Turn;

  explicit Sequencer(std::shared_ptr<async::RuntimeCore> runtime) : runtime_(std::move(runtime)) {}

  /// The next `count` ids. Any thread.
  IdRange take(std::int64_t count);
  /// How many were handed out. Any thread.
  [[nodiscard]] std::int64_t taken() const;

 private:
  struct Failure {
    std::int64_t after;  // ends requests behind this id
    std::int64_t before;
    Error error;
  };
  async::Task<> enter(IdRange range, std::string what);
  void leave(IdRange range);
  void fail(IdRange range, const Error& cause, const std::string& what);
  [[nodiscard]] const Error* failure_before(std::int64_t id) const noexcept;

  std::shared_ptr<async::RuntimeCore> runtime_;
  mutable detail::Mutex mutex_;
  std::int64_t taken_ TINKER_GUARDED_BY(mutex_) = 0;
  // Loop thread only.
  std::int64_t next_ = 0;                                 // whose turn it is
  std::map<std::int64_t, Promise<void>> waiting_ = {};    // by first id
  std::map<std::int64_t, std::int64_t> left_early_ = {};  // first id -> count
  std::vector<Failure> failures_ = {};
};

/// One request, or all chunks of one batch, on its way out. Made with the ids, so that whatever
/// happens to the request, even before it begins, its end lets the next one go. Made anywhere, used
/// on the loop thread only.
class Sequencer::Turn {
 public:
  /// `what` names the request in errors: "optim_step".
  Turn(std::shared_ptr<Sequencer> sequencer, IdRange range, std::string what)
      : sequencer_(std::move(sequencer)), range_(range), what_(std::move(what)) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { leave(); }

  /// Until all earlier requests have left. `predecessor_failed` when one of them failed.
  async::Task<> enter() { return sequencer_->enter(range_, what_); }
  /// It was submitted: the next one may go. Also when it never entered.
  void leave();
  /// It failed for good, before or after it left.
  void fail(const Error& cause);
  [[nodiscard]] IdRange range() const noexcept { return range_; }

 private:
  std::shared_ptr<Sequencer> sequencer_;
  IdRange range_;
  std::string what_;
  bool has_left_ = false;
};

}  // namespace tinker::client
