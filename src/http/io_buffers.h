#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace tinker::http {

/// Buffers that all connections of one loop share: connections have none of their own, so that
/// thousands of idle ones cost little. Loop thread only.
class IoBuffers {
 public:
  /// For bytes from a socket, until the next read.
  std::span<char> wire() { return sized(wire_, std::size_t{256} << 10U); }
  /// For what comes out of the given layer of TLS, which may carry another.
  std::span<char> plain(std::size_t layer) {
    return sized(plain_.at(layer), std::size_t{64} << 10U);
  }

 private:
  static std::span<char> sized(std::vector<char>& buffer, std::size_t bytes) {
    if (buffer.empty()) buffer.resize(bytes);
    return buffer;
  }

  std::vector<char> wire_;
  std::array<std::vector<char>, 2> plain_;
};

}  // namespace tinker::http
