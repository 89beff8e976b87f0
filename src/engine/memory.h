#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <sys/mman.h>

namespace tinker::engine {

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Room for `count` elements, after which adding them cannot fail. Grows as adding would.
template <typename T>
void make_room(std::vector<T>& elements, std::size_t count) {
  if (count > elements.capacity()) elements.reserve(std::max(count, 2 * elements.capacity()));
}

/// Gives memory back to where it came from.
struct FreeBytes {
  std::size_t mapped = 0;  ///< Bytes that the system mapped; 0: from the heap.
  void operator()(std::byte* bytes) const noexcept {
    if (mapped != 0) {
      munmap(bytes, mapped);
    } else {
      std::free(bytes);
    }
  }
};

/// When memory is zeroed: as it is taken, or page by page when it is first used, so that nobody has
/// to wait for gigabytes at once. The latter costs more where memory comes and goes.
enum class Zeroed { at_once, on_use };

/// Zeroed memory that starts at a cache line; much of it at a large page.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes, Zeroed zeroed = Zeroed::at_once) : size_(bytes) {
    if (bytes == 0) return;
    const bool is_large = bytes >= 2 * kLargePage;
    if (is_large && zeroed == Zeroed::on_use) {
      map(bytes);
      return;
    }
    const std::size_t alignment = is_large ? kLargePage : kAlignment;
    const std::size_t whole = round_up(bytes, kAlignment);
    const std::size_t taken = round_up(whole, alignment);
    data_ = {static_cast<std::byte*>(std::aligned_alloc(alignment, taken)), FreeBytes()};
    if (data_ == nullptr) throw std::bad_alloc();
    if (is_large) madvise(data_.get(), whole, MADV_HUGEPAGE);  // if it can
    std::memset(data_.get(), 0, whole);
  }
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kLargePage = std::size_t{2} << 20U;
  /// Maps a large page more, and gives back what lies before the first and behind the last one.
  void map(std::size_t bytes) {
    const std::size_t whole = round_up(bytes, kLargePage);
    void* const raw = mmap(
        nullptr, whole + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(raw);
    const std::size_t before =
        (kLargePage - reinterpret_cast<std::uintptr_t>(begin) % kLargePage) % kLargePage;
    if (before != 0) munmap(begin, before);
    munmap(begin + before + whole, kLargePage - before);
    data_ = {begin + before, FreeBytes{.mapped = whole}};
    madvise(data_.get(), whole, MADV_HUGEPAGE);  // if it can
  }

  std::unique_ptr<std::byte, FreeBytes> data_;
  std::size_t size_ = 0;
};

/// The same, of floats.
class Floats {
 public:
  Floats() = default;
  explicit Floats(std::size_t count, Zeroed zeroed = Zeroed::at_once)
      : bytes_(count * sizeof(float), zeroed) {}
  [[nodiscard]] float* data() const noexcept { return reinterpret_cast<float*>(bytes_.data()); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() / sizeof(float); }
  [[nodiscard]] std::span<float> span() const noexcept { return {data(), size()}; }
  [[nodiscard]] float& operator[](std::size_t i) const noexcept { return data()[i]; }

 private:
  AlignedBytes bytes_;
};

}  // namespace tinker::engine
