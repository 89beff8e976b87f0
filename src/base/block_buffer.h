#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tinker::base {

/// Cuts text that comes in pieces into the blocks of 64 bytes that MD5, SHA-1 and SHA-256 work on.
class BlockBuffer {
 public:
  static constexpr std::size_t kBytes = 64;
  enum class Order { little_endian, big_endian };

  /// Calls `absorb(block)` for each block that is complete.
  template <typename Absorb>
  void update(std::string_view bytes, Absorb absorb) {
    size_ += bytes.size();
    if (!tail_.empty()) {
      const auto head = bytes.substr(0, kBytes - tail_.size());
      tail_ += head;
      bytes.remove_prefix(head.size());
      if (tail_.size() < kBytes) return;
      absorb(std::string_view(tail_));
      tail_.clear();
    }
    for (; bytes.size() >= kBytes; bytes.remove_prefix(kBytes)) absorb(bytes.substr(0, kBytes));
    tail_ = bytes;
  }

  /// The rest: a one bit, zeros, and the length in bits.
  template <typename Absorb>
  void finish(Order order, Absorb absorb) {
    const std::uint64_t bits = size_ * 8;
    tail_ += '\x80';
    while (tail_.size() % kBytes != kBytes - 8) tail_ += '\0';
    for (int i = 0; i < 64; i += 8) {
      const int shift = order == Order::little_endian ? i : 56 - i;
      tail_ += static_cast<char>(bits >> shift & 0xffU);
    }
    for (std::size_t at = 0; at < tail_.size(); at += kBytes) {
      absorb(std::string_view(tail_).substr(at, kBytes));
    }
  }

 private:
  std::uint64_t size_ = 0;
  std::string tail_ = {};  // less than a block
};

/// The words of a digest as its bytes.
template <std::size_t kWords>
std::string digest_bytes(const std::array<std::uint32_t, kWords>& words, BlockBuffer::Order order) {
  std::string out;
  for (const auto word : words) {
    for (int i = 0; i < 32; i += 8) {
      const int shift = order == BlockBuffer::Order::little_endian ? i : 24 - i;
      out += static_cast<char>(word >> shift & 0xffU);
    }
  }
  return out;
}

}  // namespace tinker::base
