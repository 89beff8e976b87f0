#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string_view>

#include "tinker/http.h"

namespace tinker::api {

/// Which connections a call uses (PROTOCOL 2.2), so that one kind of work cannot hold up another.
enum class PoolKind {
  session,
  train,
  sample,
  retrieve_promise,
  retrieve_futures,
  telemetry,
  rest_support_redirect,
  config,
  auth,
};
inline constexpr std::size_t kPoolKinds = 9;
std::string_view to_string(PoolKind kind) noexcept;
/// How many requests one channel of that pool carries at a time.
std::size_t requests_per_channel(PoolKind kind) noexcept;

/// Channels of a transport, each for a limited number of calls at a time; a call takes the first
/// that has room, and a new one is made when all are full. Loop thread only.
class ChannelPool : public std::enable_shared_from_this<ChannelPool> {
 public:
  class Lease;

  ChannelPool(PoolKind kind, std::shared_ptr<http::Transport> transport);
  ChannelPool(const ChannelPool&) = delete;
  ChannelPool& operator=(const ChannelPool&) = delete;
  ~ChannelPool();

  /// A place on a channel for one call with all its retries.
  Lease lease();
  [[nodiscard]] PoolKind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::shared_ptr<http::Transport>& transport() const noexcept {
    return transport_;
  }
  [[nodiscard]] std::size_t channels() const noexcept { return slots_.size(); }

 private:
  struct Slot {
    std::uint64_t channel = 0;
    std::size_t busy = 0;
  };
  static constexpr int kFullBudget = 16;

  PoolKind kind_;
  std::shared_ptr<http::Transport> transport_;
  std::list<Slot> slots_ = {};
  int rejection_budget_ = kFullBudget;  // R5.3.2
};

/// Gives its place back when it dies.
class ChannelPool::Lease {
 public:
  Lease(std::shared_ptr<ChannelPool> pool, std::list<Slot>::iterator slot)
      : pool_(std::move(pool)), slot_(slot) {}
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&&) = delete;
  ~Lease() {
    if (pool_) --slot_->busy;
  }

  [[nodiscard]] std::uint64_t channel() const noexcept { return slot_->channel; }
  /// The call succeeded: the budget recovers.
  void succeeded() noexcept;
  /// A proxy rejected the call: the channel is replaced. True while the budget lasts, which is when
  /// the answer counts as a connection error (R5.3.1).
  bool rejected();

 private:
  std::shared_ptr<ChannelPool> pool_;
  std::list<Slot>::iterator slot_;
};

}  // namespace tinker::api
