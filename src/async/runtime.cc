#include "tinker/runtime.h"

#include <algorithm>
#include <thread>

#include "async/asio_loop.h"
#include "async/burst_executor.h"
#include "async/runtime_core.h"
#include "async/this_thread.h"
#include "async/thread_pool.h"
#include "base/block_pool.h"
#include "base/strings.h"

namespace tinker {

using async::RuntimeCore;

struct Runtime::Handle {
  Handle(std::shared_ptr<RuntimeCore> c, UniqueFunction<void(RuntimeCore&)> e)
      : core(std::move(c)), end(std::move(e)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { end(*core); }

  std::shared_ptr<RuntimeCore> core;
  UniqueFunction<void(RuntimeCore&)> end;
};

const std::shared_ptr<Executor>& Runtime::callbacks() const noexcept {
  return handle_->core->callbacks();
}
const EventBus& Runtime::events() const noexcept {
  return handle_->core->events();
}
const std::shared_ptr<RuntimeCore>& Runtime::core() const noexcept {
  return handle_->core;
}

Runtime Runtime::start() {
  return start(RuntimeOptions());
}

namespace {

/// The threads of a runtime, and how they end with its last handle.
struct Threads {
  std::shared_ptr<async::AsioLoop> loop;
  std::shared_ptr<async::ThreadPool> workers;
  std::shared_ptr<async::ThreadPool> callbacks;  // null where the user has their own
  std::thread loop_thread;

  void operator()(RuntimeCore& ending) {
    loop->post([loop = loop, core = ending.shared_from_this()] {
      core->shut_down([loop, core] {
        core->clear_shared();
        loop->stop();
      });
    });
    // The last handle may die in a callback or on the loop itself: then all end on their own.
    if (async::this_thread().is_library) return loop_thread.detach();
    loop_thread.join();
    // Futures that are still held share the pools, so those may stay; their work may not.
    workers->wait_idle();
    if (callbacks) callbacks->wait_idle();
  }
};

}  // namespace

Runtime Runtime::start(RuntimeOptions options) {
  Threads threads = {
      .loop = async::AsioLoop::create(),
      .workers = std::make_shared<async::ThreadPool>("tinker-worker",
                                                     std::max(1U, options.worker_threads)),
      .callbacks =
          options.callbacks ? nullptr : std::make_shared<async::ThreadPool>("tinker-callback", 1),
      .loop_thread = {},
  };
  std::shared_ptr<async::BurstExecutor> bursts;
  if (threads.callbacks) bursts = async::BurstExecutor::create(threads.loop, threads.callbacks);
  auto core = std::make_shared<RuntimeCore>(RuntimeCore::Parts{
      .loop = threads.loop,
      .workers = threads.workers,
      .callbacks = bursts ? bursts : std::move(options.callbacks),
      .logger = std::move(options.logger),
      .rng = options.seed ? Rng(*options.seed) : Rng::from_entropy(),
  });
  threads.loop_thread = std::thread([loop = threads.loop, bursts] {
    async::enter_library_thread("tinker-loop");
    async::this_thread().loop = loop.get();
    loop->run();
    if (bursts) bursts->flush();
  });
  return RuntimeCore::make_handle(std::move(core), std::move(threads));
}

namespace async {

namespace {

Error stop_requested() {
  return {.code = ErrorCode::cancelled, .message = "a stop was requested"};
}

}  // namespace

RuntimeCore::RuntimeCore(Parts parts) : parts_(std::move(parts)), id_rng_(parts_.rng.next()) {}
RuntimeCore::~RuntimeCore() = default;

Runtime RuntimeCore::make_handle(std::shared_ptr<RuntimeCore> core,
                                 UniqueFunction<void(RuntimeCore&)> end) {
  return Runtime(std::make_shared<Runtime::Handle>(std::move(core), std::move(end)));
}

std::string RuntimeCore::uuid4() {
  const detail::MutexLock lock(mutex_);
  return id_rng_.uuid4();
}

void RuntimeCore::started() {
  ++running_;
}

void RuntimeCore::ended() {
  --running_;
  if (running_ == 0 && when_idle_) parts_.loop->post(std::move(when_idle_));
}

void RuntimeCore::shut_down(UniqueFunction<void()> done) {
  when_idle_ = std::move(done);
  scope_->cancel({.code = ErrorCode::cancelled, .message = "the runtime went away"});
  if (running_ == 0) parts_.loop->post(std::move(when_idle_));
}

std::shared_ptr<RuntimeCore::Slot> RuntimeCore::slot(std::type_index type) {
  const detail::MutexLock lock(mutex_);
  if (is_cleared_) return std::make_shared<Slot>();  // made for this caller alone
  auto& slot = shared_[type];
  if (!slot) slot = std::make_shared<Slot>();
  return slot;
}

void RuntimeCore::clear_shared() {
  std::map<std::type_index, std::shared_ptr<Slot>> gone;
  {
    const detail::MutexLock lock(mutex_);
    is_cleared_ = true;
    gone.swap(shared_);
  }
}

std::shared_ptr<RuntimeCore::Operation> RuntimeCore::begin(const SpawnOptions& options) {
  return std::allocate_shared<Operation>(
      base::BlockAllocator<Operation>(), shared_from_this(), options);
}

RuntimeCore::Operation::Operation(std::shared_ptr<RuntimeCore> core, const SpawnOptions& options)
    : core_(std::move(core)), stop_token_(options.stop_token) {
  if (options.deadline) {
    time_limit_ = *options.deadline;
    deadline_ = time_after(core_->clock().now(), time_limit_);
  }
}

void RuntimeCore::Operation::cancel(Error reason) {
  core_->loop()->post(
      [self = shared_from_this(), reason = std::move(reason)] { self->cancel_now(reason); });
}

void RuntimeCore::Operation::OnStop::operator()() const {
  if (const auto alive = operation.lock()) {
    alive->cancel(stop_requested());
  }
}

void RuntimeCore::Operation::start(std::shared_ptr<Scope> parent) {
  core_->started();
  scope_.attach(std::move(parent));
  // A parent that nobody put below the runtime does not keep it alive.
  if (core_->scope()->is_cancelled()) scope_.cancel(core_->scope()->reason());
  if (stop_token_.stop_requested()) scope_.cancel(stop_requested());
  if (deadline_ && *deadline_ <= core_->clock().now()) expire();
  if (scope_.is_cancelled()) return;  // it never runs
  if (deadline_) {
    scope_.set_deadline(*deadline_);
    timer_ = core_->loop()->schedule(*deadline_, [weak = weak_from_this()] {
      if (const auto alive = weak.lock()) alive->expire();
    });
  }
  if (stop_token_.stop_possible()) on_stop_.emplace(stop_token_, OnStop{weak_from_this()});
}

void RuntimeCore::Operation::expire() {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time_limit_).count();
  cancel_now({.code = ErrorCode::deadline_exceeded,
              .message = base::concat("not finished within its deadline of ", ms, " ms")});
}

void RuntimeCore::Operation::cancel_now(const Error& reason) {
  scope_.cancel(scope_.with_cause(reason, core_->loop()->now()));
}

void RuntimeCore::Operation::end() {
  core_->loop()->cancel(timer_);
  on_stop_.reset();
  // Whoever cancels at this moment, on whichever thread, may be the last to let go of it.
  scope_.detach();
  core_->ended();
}

}  // namespace async
}  // namespace tinker
