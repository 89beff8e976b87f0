#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tinker/executor.h"
#include "tinker/future.h"

namespace tinker::cli {

/// What came of the calls of a run.
struct BenchTally {
  std::vector<float> latencies_ms = {};              ///< Of those that succeeded.
  std::map<std::string, std::uint64_t> errors = {};  ///< The others, by class.
  std::uint64_t failed = 0;
  std::chrono::duration<double> elapsed = {};

  [[nodiscard]] std::uint64_t ended() const noexcept { return latencies_ms.size() + failed; }
};

/// Keeps a number of calls under way until enough have ended. Its work happens on the callback
/// thread of the client, which must be a single one; so it needs no lock and costs little.
class BenchLoad : public std::enable_shared_from_this<BenchLoad> {
 public:
  class Ticket;
  /// Starts one call, which ends its ticket.
  using Call = std::function<void(Ticket)>;

  BenchLoad(std::shared_ptr<Executor> callbacks, std::size_t in_flight, Call call);

  /// Makes `calls` calls. One run at a time.
  Future<BenchTally> run(std::uint64_t calls);
  /// Ends the run with what there is, and lets go of the client. Any thread.
  void stop();
  /// Calls of this run that have ended. Any thread.
  [[nodiscard]] std::uint64_t ended() const noexcept { return ended_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  void pump();
  void end_call(Clock::time_point started, const Error* error);
  void finish();

  std::shared_ptr<Executor> callbacks_;
  std::size_t limit_;
  Call call_;
  std::optional<Promise<BenchTally>> promise_ = {};
  BenchTally tally_ = {};
  std::uint64_t left_ = 0;
  std::size_t in_flight_ = 0;
  bool is_pumping_ = false;
  Clock::time_point begun_ = {};
  std::atomic<std::uint64_t> ended_ = 0;
};

/// One call under way.
class BenchLoad::Ticket {
 public:
  explicit Ticket(std::shared_ptr<BenchLoad> load) : load_(std::move(load)) {}

  /// To be called once, on the callback thread; `error` is null for a success.
  void end(const Error* error) const { load_->end_call(started_, error); }

 private:
  std::shared_ptr<BenchLoad> load_;
  Clock::time_point started_ = Clock::now();
};

}  // namespace tinker::cli
