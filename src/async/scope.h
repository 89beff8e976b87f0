#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tinker/error.h"

namespace tinker::async {

/// What went wrong in an operation that goes on trying.
struct Failure {
  std::string what = {};  ///< "POST http://…: connection refused"; holds no secret.
  std::chrono::steady_clock::time_point at = {};
};

/// What can be told to stop together: an operation, a session, a whole runtime.
///
/// Scopes form a tree; cancelling one cancels what is below it. Whoever waits inside a scope hangs
/// a `Hook` into it and is woken with the reason. Made anywhere, then used on the loop thread only.
class Scope {
  struct Node {
    Node* previous = nullptr;
    Node* next = nullptr;
  };

 public:
  /// An entry in a scope's list. Leaves the list when it dies.
  class Hook : private Node {
   public:
    Hook() = default;
    Hook(const Hook&) = delete;
    Hook& operator=(const Hook&) = delete;
    virtual ~Hook() { unlink(); }

    [[nodiscard]] bool is_linked() const noexcept { return next != nullptr; }
    void unlink() noexcept;

   private:
    friend class Scope;
    /// Called once, after the hook left the list. Must not resume a coroutine inside the call.
    virtual void on_cancel(const Error& reason) = 0;
  };

  Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

  /// Puts this scope below `parent`, once; cancels it when that one is cancelled.
  void attach(std::shared_ptr<Scope> parent);
  /// Leaves the parent. From then on it may die on any thread.
  void detach() noexcept;
  /// The first reason stays.
  void cancel(Error reason);
  [[nodiscard]] bool is_cancelled() const noexcept { return reason_ != nullptr; }
  /// Requires `is_cancelled()`.
  [[nodiscard]] const Error& reason() const { return *reason_; }
  /// When somebody will cancel it at the latest.
  void set_deadline(std::chrono::steady_clock::time_point deadline) { deadline_ = deadline; }
  /// The earliest of its own and of those above it; nothing when there is none.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const noexcept;
  /// Keeps `failure` as the latest one here and in the scopes above, but not in the root, which
  /// strangers share. Null: what was tried has succeeded.
  void note(const std::shared_ptr<const Failure>& failure) noexcept;
  /// `reason` with the latest failure in its message: of this scope, or else of those above it.
  [[nodiscard]] Error with_cause(Error reason, std::chrono::steady_clock::time_point now) const;
  /// The latest failure of this scope, or null.
  [[nodiscard]] const std::shared_ptr<const Failure>& failure() const noexcept { return failure_; }
  /// `hook` hears of a cancellation to come.
  void add(Hook& hook) noexcept;

 private:
  /// Passes a parent's cancellation on.
  class Upward final : public Hook {
   public:
    explicit Upward(Scope& scope) : scope_(scope) {}

   private:
    void on_cancel(const Error& reason) override { scope_.cancel(reason); }
    Scope& scope_;
  };

  std::unique_ptr<const Error> reason_ = {};  // few have one
  std::shared_ptr<const Failure> failure_ = {};
  std::optional<std::chrono::steady_clock::time_point> deadline_ = {};
  std::shared_ptr<Scope> parent_ = {};  // outlives the hook that is linked into it
  Node hooks_ = {.previous = &hooks_, .next = &hooks_};
  Upward upward_{*this};
};

}  // namespace tinker::async
