#include "async/scope.h"

#include <utility>

#include "base/durations.h"
#include "base/strings.h"
#include "tinker/check.h"

namespace tinker::async {

void Scope::Hook::unlink() noexcept {
  if (!is_linked()) return;
  previous->next = next;
  next->previous = previous;
  previous = next = nullptr;
}

void Scope::attach(std::shared_ptr<Scope> parent) {
  TINKER_CHECK(parent_ == nullptr);
  parent_ = std::move(parent);
  if (parent_->is_cancelled()) return cancel(parent_->reason());
  parent_->add(upward_);
}

void Scope::detach() noexcept {
  upward_.unlink();
  parent_.reset();
}

Scope::Scope() = default;
Scope::~Scope() {
  TINKER_CHECK(hooks_.next == &hooks_);
}

void Scope::add(Hook& hook) noexcept {
  hook.previous = hooks_.previous;
  hook.next = &hooks_;
  hooks_.previous->next = &hook;
  hooks_.previous = &hook;
}

std::optional<std::chrono::steady_clock::time_point> Scope::deadline() const noexcept {
  auto earliest = deadline_;
  for (const Scope* above = parent_.get(); above != nullptr; above = above->parent_.get()) {
    if (above->deadline_ && (!earliest || *above->deadline_ < *earliest)) {
      earliest = above->deadline_;
    }
  }
  return earliest;
}

void Scope::note(const std::shared_ptr<const Failure>& failure) noexcept {
  for (Scope* at = this; at != nullptr && at->parent_; at = at->parent_.get()) {
    at->failure_ = failure;
  }
}

Error Scope::with_cause(Error reason, std::chrono::steady_clock::time_point now) const {
  const Scope* at = this;
  while (at != nullptr && !at->failure_) at = at->parent_.get();
  if (at == nullptr) return reason;
  reason.message += base::concat(at == this ? "; last attempt " : "; last failure of the client ",
                                 base::seconds_text(now - at->failure_->at),
                                 " ago: ",
                                 at->failure_->what);
  return reason;
}

void Scope::cancel(Error reason) {
  if (is_cancelled()) return;
  reason_ = std::make_unique<const Error>(std::move(reason));
  while (hooks_.next != &hooks_) {
    auto& hook = static_cast<Hook&>(*hooks_.next);
    hook.unlink();
    hook.on_cancel(*reason_);
  }
}

}  // namespace tinker::async
