#include "api/channel_pool.h"

#include <algorithm>
#include <atomic>

namespace tinker::api {

namespace {

/// Channels are told apart across all pools that share a transport.
std::uint64_t next_channel() noexcept {
  static std::atomic<std::uint64_t> last = 0;  // only ever counts; nobody can observe its history
  return ++last;
}

}  // namespace

std::string_view to_string(PoolKind kind) noexcept {
  switch (kind) {
    case PoolKind::session: return "session";
    case PoolKind::train: return "train";
    case PoolKind::sample: return "sample";
    case PoolKind::retrieve_promise: return "retrieve_promise";
    case PoolKind::retrieve_futures: return "retrieve_futures";
    case PoolKind::telemetry: return "telemetry";
    case PoolKind::rest_support_redirect: return "rest_support_redirect";
    case PoolKind::config: return "config";
    case PoolKind::auth: return "auth";
  }
  return "unknown";
}

std::size_t requests_per_channel(PoolKind kind) noexcept {
  switch (kind) {
    case PoolKind::train:
    case PoolKind::config:
    case PoolKind::auth: return 1;
    default: return 50;
  }
}

ChannelPool::ChannelPool(PoolKind kind, std::shared_ptr<http::Transport> transport)
    : kind_(kind), transport_(std::move(transport)) {}

ChannelPool::~ChannelPool() {
  for (const auto& slot : slots_) transport_->close_channel(slot.channel);
}

ChannelPool::Lease ChannelPool::lease() {
  const std::size_t limit = requests_per_channel(kind_);
  auto slot = std::ranges::find_if(slots_, [limit](const Slot& s) { return s.busy < limit; });
  if (slot == slots_.end()) slot = slots_.insert(slots_.end(), Slot{.channel = next_channel()});
  ++slot->busy;
  return {shared_from_this(), slot};
}

void ChannelPool::Lease::succeeded() noexcept {
  pool_->rejection_budget_ = std::min(pool_->rejection_budget_ + 1, kFullBudget);
}

bool ChannelPool::Lease::rejected() {
  pool_->transport_->close_channel(slot_->channel);
  slot_->channel = next_channel();
  if (pool_->rejection_budget_ == 0) return false;
  --pool_->rejection_budget_;
  return true;
}

}  // namespace tinker::api
