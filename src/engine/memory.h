#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include <sys/mman.h>

namespace tinker::engine {

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Zeroed memory that starts at a cache line; much of it at a large page.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    const std::size_t alignment = bytes < 2 * kLargePage ? kAlignment : kLargePage;
    const std::size_t whole = round_up(bytes, kAlignment);
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, round_up(whole, alignment))));
    if (data_ == nullptr) throw std::bad_alloc();
    if (alignment == kLargePage) madvise(data_.get(), whole, MADV_HUGEPAGE);  // if it can
    std::memset(data_.get(), 0, whole);
  }
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kLargePage = std::size_t{2} << 20U;
  struct Free {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

/// The same, of floats.
class Floats {
 public:
  Floats() = default;
  explicit Floats(std::size_t count) : bytes_(count * sizeof(float)) {}
  [[nodiscard]] float* data() const noexcept { return reinterpret_cast<float*>(bytes_.data()); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() / sizeof(float); }
  [[nodiscard]] std::span<float> span() const noexcept { return {data(), size()}; }
  [[nodiscard]] float& operator[](std::size_t i) const noexcept { return data()[i]; }

 private:
  AlignedBytes bytes_;
};

}  // namespace tinker::engine
