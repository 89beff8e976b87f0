#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/event_loop.h"
#include "tinker/error.h"
#include "tinker/result.h"
#include "tinker/unique_function.h"

namespace tinker::server {

/// The requests of one model in the order of their numbers (PROTOCOL 10.3, 10.4, SERVER 0.5).
///
/// Chunks of a batch arrive in any order and the first one last, so a pass above a missing number
/// waits: until the number comes, until a barrier comes (the client sends one only when all that is
/// below it was accepted or given up), or for `hold`. Barriers (optim_step, saves, loads) never
/// wait.
///
/// A number below one already started was given up by the client: it fails. Except a pass above
/// every barrier that has started: that is the first chunk of a batch whose other chunks did not
/// wait any longer. It starts at once, because gradients add up in any order.
///
/// A request that is refused for its content is submitted all the same, with a `start` that fails
/// it: so it uses up its number (PROTOCOL 10.17). Loop thread only.
class Sequencer {
 public:
  enum class Kind { pass, barrier };
  struct Submission {
    std::optional<std::int64_t> seq_id = {};  ///< None: after what is here, never a duplicate.
    Kind kind = Kind::pass;
    std::string request_type = {};  ///< "forward_backward": part of what makes a duplicate.
    std::string payload_hash = {};
    std::string request_id = {};  ///< What it is called if it is new.
    /// Called once, when its turn has come: with nothing to go ahead, or with why it will not be
    /// done. May be called inside `submit`. May submit, close and destroy the sequencer.
    UniqueFunction<void(std::optional<Error>)> start = {};
  };
  struct Admission {
    std::string request_id = {};
    bool is_duplicate = false;  ///< `start` was dropped; the id is the first one's.
  };

  /// `next`: the number of the first request, 1, or 0 when creation is not a request of its own.
  Sequencer(std::shared_ptr<async::EventLoop> loop,
            std::int64_t next,
            std::chrono::nanoseconds hold);
  /// Closes it, so what the `start`s use must outlive it.
  ~Sequencer();
  Sequencer(const Sequencer&) = delete;
  Sequencer& operator=(const Sequencer&) = delete;

  /// Fails with `bad_request` when the number was used with another payload or type; 400, never
  /// 409. After `close` fails with its reason.
  Result<Admission> submit(Submission submission);
  /// A request that was done before the first one here: its repeats are duplicates.
  void add_earlier(const Submission& submission);
  /// Whether a pass that comes for a number below those that have started would be done.
  [[nodiscard]] bool has_gap() const noexcept;
  /// From now on it would fail, as if a barrier had started.
  void give_up_missing();
  /// What waits starts now, as if it had waited for `hold`.
  void stop_waiting();
  /// Ends all that waits with `reason`, and refuses what comes.
  void close(const Error& reason);
  [[nodiscard]] std::size_t waiting() const noexcept;
  /// Whether the number is that of a request that is here, or one that requests here wait for.
  [[nodiscard]] bool is_expected(std::int64_t number) const;
  /// The number that the request with this id waits for; nothing if its turn has come.
  [[nodiscard]] std::optional<std::int64_t> awaited_by(std::string_view request_id) const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the calls of `start`
};

}  // namespace tinker::server
