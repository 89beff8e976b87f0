#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tinker/check.h"

namespace tinker {

/// Immutable numbers in memory that is shared with other buffers or borrowed from the caller. A
/// copy costs a reference count, never the numbers.
///
/// The memory may be part of a received message and then need not be aligned for `T`: elements are
/// handed out by value, which compilers turn into plain (vector) loads.
///
/// Immutable, so safe to read from many threads.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  class Iterator;
  using value_type = T;

  Buffer() = default;
  /// Takes the vector over; nothing is copied.
  // NOLINTNEXTLINE(google-explicit-constructor): a vector is a buffer that owns its numbers.
  Buffer(std::vector<T> values) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    *this = view(std::as_bytes(std::span(*owner)), owner);
  }
  /// Refers to memory the caller keeps alive and unchanged for as long as any copy lives.
  static Buffer borrow(std::span<const T> values) { return view(std::as_bytes(values), nullptr); }
  /// Refers to `bytes`, kept alive by `owner`. Whole elements only.
  static Buffer view(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    TINKER_CHECK(bytes.size() % sizeof(T) == 0);
    Buffer out;
    out.owner_ = std::move(owner);
    out.data_ = bytes.data();
    out.size_ = bytes.size() / sizeof(T);
    return out;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Requires `index < size()`.
  [[nodiscard]] T operator[](std::size_t index) const noexcept {
    T value;
    std::memcpy(&value, data_ + index * sizeof(T), sizeof(T));
    return value;
  }
  [[nodiscard]] Iterator begin() const noexcept { return Iterator(data_); }
  [[nodiscard]] Iterator end() const noexcept { return Iterator(data_ + size_ * sizeof(T)); }

  /// Elements [first, first + count), sharing this memory. Requires them to exist.
  [[nodiscard]] Buffer slice(std::size_t first, std::size_t count) const {
    TINKER_CHECK(first <= size_ && count <= size_ - first);
    return view({data_ + first * sizeof(T), count * sizeof(T)}, owner_);
  }
  [[nodiscard]] std::vector<T> to_vector() const {
    std::vector<T> out(size_);
    if (size_ > 0) std::memcpy(out.data(), data_, size_ * sizeof(T));
    return out;
  }
  /// The memory as it is; valid while a buffer that shares it lives.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {data_, size_ * sizeof(T)};
  }
  /// The elements in place, when the memory is aligned for `T`; otherwise use `to_vector()`.
  [[nodiscard]] std::optional<std::span<const T>> span() const noexcept {
    if (reinterpret_cast<std::uintptr_t>(data_) % alignof(T) != 0) return std::nullopt;
    return std::span<const T>(reinterpret_cast<const T*>(data_), size_);
  }

  friend bool operator==(const Buffer& a, const Buffer& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::shared_ptr<const void> owner_ = {};
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Random access, elements by value.
template <typename T>
class Buffer<T>::Iterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using reference = T;
  using pointer = void;
  using iterator_category = std::random_access_iterator_tag;

  Iterator() = default;
  explicit Iterator(const std::byte* at) : at_(at) {}

  T operator*() const noexcept {
    T value;
    std::memcpy(&value, at_, sizeof(T));
    return value;
  }
  T operator[](difference_type n) const noexcept { return *(*this + n); }
  Iterator& operator+=(difference_type n) noexcept {
    at_ += n * kStep;
    return *this;
  }
  Iterator& operator-=(difference_type n) noexcept { return *this += -n; }
  Iterator& operator++() noexcept { return *this += 1; }
  Iterator& operator--() noexcept { return *this -= 1; }
  Iterator operator++(int) noexcept { return std::exchange(*this, *this + 1); }
  Iterator operator--(int) noexcept { return std::exchange(*this, *this - 1); }
  friend Iterator operator+(Iterator it, difference_type n) noexcept { return it += n; }
  friend Iterator operator+(difference_type n, Iterator it) noexcept { return it += n; }
  friend Iterator operator-(Iterator it, difference_type n) noexcept { return it -= n; }
  friend difference_type operator-(Iterator a, Iterator b) noexcept {
    return (a.at_ - b.at_) / kStep;
  }
  friend auto operator<=>(const Iterator&, const Iterator&) = default;

 private:
  static constexpr auto kStep = static_cast<difference_type>(sizeof(T));
  const std::byte* at_ = nullptr;
};

}  // namespace tinker
