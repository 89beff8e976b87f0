#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/block_buffer.h"

namespace tinker::base {

/// SHA-256 (FIPS 180-4) of text that comes in pieces. For names of content and against damage, not
/// for secrets: it takes a time that depends on the length.
///
/// Thread-compatible.
class Sha256 {
 public:
  void update(std::string_view bytes);
  /// The 32 bytes of the digest. To be called once.
  std::string finish();

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667,
                                         0xbb67ae85,
                                         0x3c6ef372,
                                         0xa54ff53a,
                                         0x510e527f,
                                         0x9b05688c,
                                         0x1f83d9ab,
                                         0x5be0cd19};
  BlockBuffer blocks_ = {};
};

/// The digest of the text as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view text);

}  // namespace tinker::base
