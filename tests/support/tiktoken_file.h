#pragma once

#include <string>
#include <string_view>

namespace tinker::testing {

/// A tiktoken file of the 256 bytes, rank for rank.
inline std::string byte_ranks() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (unsigned byte = 0; byte < 256; ++byte) {
    out += kDigits[byte / 4];
    out += kDigits[byte % 4 * 16];
    out += "== " + std::to_string(byte) + "\n";
  }
  return out;
}

}  // namespace tinker::testing
