#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "tinker/check.h"

namespace tinker {

template <typename Signature>
class UniqueFunction;

/// A callable that is moved, never copied, so that it can own what it needs: promises, buffers,
/// handles. Small ones live inside the object.
///
/// Thread-compatible.
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as with std::function.
  UniqueFunction(std::nullptr_t) {}
  template <typename F>
    requires(!std::same_as<std::remove_cvref_t<F>, UniqueFunction> &&
             std::is_invocable_r_v<R, std::remove_cvref_t<F>&, Args...>)
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): likewise.
  UniqueFunction(F&& function) {
    using Callable = std::remove_cvref_t<F>;
    if constexpr (fits<Callable>()) {
      ::new (static_cast<void*>(storage_.data())) Callable(std::forward<F>(function));
      table_ = &kInline<Callable>;
    } else {
      ::new (static_cast<void*>(storage_.data()))
          Callable*(new Callable(std::forward<F>(function)));
      table_ = &kOutside<Callable>;
    }
  }
  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~UniqueFunction() { reset(); }

  explicit operator bool() const noexcept { return table_ != nullptr; }
  /// Requires a callable.
  R operator()(Args... args) {
    TINKER_CHECK(table_ != nullptr);
    return table_->call(storage_.data(), std::forward<Args>(args)...);
  }

 private:
  struct Table {
    R (*call)(void* object, Args&&... args);
    void (*move)(void* from, void* to) noexcept;  // leaves nothing at `from`
    void (*destroy)(void* object) noexcept;
  };
  static constexpr std::size_t kSize = 6 * sizeof(void*);

  template <typename F>
  static constexpr bool fits() {
    return sizeof(F) <= kSize && alignof(F) <= alignof(std::max_align_t) &&
           std::is_nothrow_move_constructible_v<F>;
  }

  template <typename F>
  static constexpr Table kInline = {
      .call = [](void* object, Args&&... args) -> R {
        return std::invoke(*static_cast<F*>(object), std::forward<Args>(args)...);
      },
      .move =
          [](void* from, void* to) noexcept {
            ::new (to) F(std::move(*static_cast<F*>(from)));
            static_cast<F*>(from)->~F();
          },
      .destroy = [](void* object) noexcept { static_cast<F*>(object)->~F(); },
  };
  template <typename F>
  static constexpr Table kOutside = {
      .call = [](void* object, Args&&... args) -> R {
        return std::invoke(**static_cast<F**>(object), std::forward<Args>(args)...);
      },
      .move = [](void* from, void* to) noexcept { ::new (to) F*(*static_cast<F**>(from)); },
      .destroy = [](void* object) noexcept { delete *static_cast<F**>(object); },
  };

  void take(UniqueFunction& other) noexcept {
    if (other.table_ == nullptr) return;
    table_ = std::exchange(other.table_, nullptr);
    table_->move(other.storage_.data(), storage_.data());
  }
  void reset() noexcept {
    if (table_ != nullptr) std::exchange(table_, nullptr)->destroy(storage_.data());
  }

  alignas(std::max_align_t) std::array<std::byte, kSize> storage_;
  const Table* table_ = nullptr;
};

}  // namespace tinker
