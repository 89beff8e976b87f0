#include "async/task.h"

namespace tinker::async {

bool Wait::suspend(const Context& context, std::coroutine_handle<> handle) {
  context_ = context;
  handle_ = handle;
  if (context.scope->is_cancelled()) {
    outcome_.emplace(context.scope->reason());
    return false;
  }
  context.scope->add(*this);
  return true;
}

void Wait::wake(Result<void> outcome) {
  if (is_awake()) return;
  outcome_.emplace(std::move(outcome));
  unlink();
  context_.loop->post([handle = handle_] { handle.resume(); });
}

void Wait::wake_here() {
  if (is_awake()) return;
  outcome_.emplace();
  unlink();
  handle_.resume();
}

void Wait::on_cancel(const Error& reason) {
  if (is_awake()) return;
  abandon();
  wake(reason);
}

bool Sleep::start(const Context& context, std::coroutine_handle<> handle) {
  if (!suspend(context, handle)) return false;
  timer_ = loop().schedule_after(delay_, [this] { wake_here(); });
  return true;
}

}  // namespace tinker::async
