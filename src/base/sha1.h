#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/block_buffer.h"

namespace tinker::base {

/// SHA-1 (FIPS 180-4) of text that comes in pieces. Finds damage, not malice: Git names what it
/// keeps by it.
///
/// Thread-compatible.
class Sha1 {
 public:
  void update(std::string_view bytes);
  /// The 20 bytes of the digest. To be called once.
  std::string finish();

 private:
  std::array<std::uint32_t, 5> state_ = {
      0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  BlockBuffer blocks_ = {};
};

}  // namespace tinker::base
