#pragma once

#include <cstddef>

#include "engine/memory.h"

namespace tinker::engine {

/// Memory for many arrays that live as long as each other. One without memory only counts, so that
/// what a plan takes is known before it is made.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::size_t bytes) : memory_(bytes, Zeroed::on_use) {}

  [[nodiscard]] std::byte* bytes(std::size_t count) {
    const std::size_t begin = used_;
    used_ += round_up(count, kAlignment);
    return memory_.size() == 0 ? nullptr : memory_.data() + begin;
  }
  [[nodiscard]] float* floats(std::size_t count) {
    return reinterpret_cast<float*>(bytes(count * sizeof(float)));
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  AlignedBytes memory_;
  std::size_t used_ = 0;
};

/// Runs `plan(arena)` to count, then to give out memory.
template <typename F>
Arena make_arena(F plan) {
  Arena counting;
  plan(counting);
  Arena out(counting.used());
  plan(out);
  return out;
}

}  // namespace tinker::engine
