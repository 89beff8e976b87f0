#include "async/asio_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace tinker::async {

namespace asio = boost::asio;

namespace {
// Room for this much posted work is kept; a flood may take more.
constexpr std::size_t kKeptWork = 4096;
}  // namespace

struct AsioLoop::Impl {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  asio::steady_timer timer{io};
  TimePoint armed_for = TimePoint::max();
  std::vector<UniqueFunction<void()>> batch;  // what `run_posted` runs; empty otherwise
};

std::shared_ptr<AsioLoop> AsioLoop::create() {
  return std::make_shared<AsioLoop>();
}
AsioLoop::AsioLoop() : impl_(std::make_unique<Impl>()) {}
AsioLoop::~AsioLoop() = default;

asio::io_context& AsioLoop::io() noexcept {
  return impl_->io;
}

void AsioLoop::run() {
  impl_->io.run();
  // Destroying one piece of work may post another; after `stop` those are destroyed by `post`.
  std::vector<UniqueFunction<void()>> left;
  {
    const detail::MutexLock lock(mutex_);
    left.swap(posted_);
  }
  left.clear();
  timers_.clear();
}

void AsioLoop::stop() {
  {
    const detail::MutexLock lock(mutex_);
    is_stopped_ = true;
  }
  impl_->io.stop();
}

void AsioLoop::post(UniqueFunction<void()> work) {
  {
    const detail::MutexLock lock(mutex_);
    if (is_stopped_) return;
    posted_.push_back(std::move(work));
    if (posted_.size() > 1) return;  // a run is on its way already
  }
  asio::post(impl_->io, [this] { run_posted(); });
}

void AsioLoop::run_posted() {
  // The two lists take turns, so that neither has to grow again.
  auto& batch = impl_->batch;
  {
    const detail::MutexLock lock(mutex_);
    batch.swap(posted_);
  }
  for (auto& work : batch) {
    auto once = std::move(work);  // its captures die right after it ran
    once();
  }
  batch.clear();
  if (batch.capacity() > kKeptWork) batch.shrink_to_fit();
}

TimerId AsioLoop::schedule(TimePoint when, UniqueFunction<void()> work) {
  const TimerId id = timers_.add(when, std::move(work));
  arm();
  return id;
}

void AsioLoop::cancel(TimerId id) {
  timers_.cancel(id);
}

void AsioLoop::arm() {
  const auto next = timers_.next();
  if (!next || *next >= impl_->armed_for) return;
  impl_->armed_for = *next;
  impl_->timer.expires_at(*next);
  impl_->timer.async_wait([this](const boost::system::error_code& error) {
    if (!error) run_timers();
  });
}

void AsioLoop::run_timers() {
  impl_->armed_for = TimePoint::max();
  // What falls due while these run waits its turn behind the sockets.
  const TimePoint due = now();
  while (auto work = timers_.take_due(due)) work();
  arm();
}

}  // namespace tinker::async
