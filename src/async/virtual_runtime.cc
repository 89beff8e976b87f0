#include "tinker/testing/virtual_runtime.h"

#include "async/runtime_core.h"
#include "async/virtual_loop.h"

namespace tinker::testing {

using async::RuntimeCore;

namespace {

void end(const std::shared_ptr<RuntimeCore>& core) {
  core->shut_down([core] { core->clear_shared(); });
}

}  // namespace

VirtualRuntime::VirtualRuntime(Logger logger, std::uint64_t seed)
    : loop_(std::make_shared<async::VirtualLoop>()) {
  TINKER_CHECK(async::this_thread().pump == nullptr);
  async::this_thread().pump = loop_.get();
  auto core = std::make_shared<RuntimeCore>(RuntimeCore::Parts{
      .loop = loop_,
      .workers = loop_,
      .callbacks = loop_,
      .logger = std::move(logger),
      .rng = Rng(seed),
  });
  core_ = core;
  runtime_ = std::make_unique<Runtime>(
      RuntimeCore::make_handle(std::move(core), [loop = loop_](RuntimeCore& ending) {
        loop->post([core = ending.shared_from_this()] { end(core); });
      }));
}

VirtualRuntime::~VirtualRuntime() {
  runtime_.reset();
  loop_->run_ready();
  if (const auto core = core_.lock()) end(core);
  loop_->run_ready();
  loop_->stop();
  async::this_thread().pump = nullptr;
}

void VirtualRuntime::run_ready() {
  loop_->run_ready();
}
void VirtualRuntime::advance(std::chrono::nanoseconds by) {
  loop_->advance(by);
}
void VirtualRuntime::shift_wall_time(std::chrono::nanoseconds by) {
  loop_->shift_wall_time(by);
}
std::chrono::nanoseconds VirtualRuntime::elapsed() const {
  return loop_->now().time_since_epoch();
}
const Clock& VirtualRuntime::clock() const noexcept {
  return loop_->clock();
}

}  // namespace tinker::testing
