#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/block_buffer.h"

namespace tinker::base {

/// MD5 (RFC 1321) of text that comes in pieces. Finds damage, not malice: storage still sends it.
///
/// Thread-compatible.
class Md5 {
 public:
  void update(std::string_view bytes);
  /// The 16 bytes of the digest. To be called once.
  std::string finish();

 private:
  std::array<std::uint32_t, 4> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  BlockBuffer blocks_ = {};
};

}  // namespace tinker::base
