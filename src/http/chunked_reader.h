#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tinker::http {

/// Takes the chunked coding off a request's body (RFC 9112, section 7.1), strictly: lines end with
/// CRLF, sizes are hexadecimal digits. Extensions and trailers are passed over, within limits.
class ChunkedReader {
 public:
  /// Takes what belongs to the body from the front of `bytes` and returns the next piece of data.
  /// Empty: all of `bytes` was used, the body is complete, or it is broken.
  std::string_view next(std::string_view& bytes);
  [[nodiscard]] bool is_complete() const noexcept { return state_ == State::complete; }
  [[nodiscard]] bool is_broken() const noexcept { return state_ == State::broken; }

 private:
  enum class State { size, extension, size_end, data, data_cr, data_lf, trailer, complete, broken };

  void take(char c);
  void take_size(char c);
  void take_trailer(char c);

  State state_ = State::size;
  std::uint64_t left_ = 0;      // of the chunk
  std::uint32_t digits_ = 0;    // of its size
  std::uint32_t overhead_ = 0;  // bytes of this chunk's extension, or of the trailers
  std::uint32_t column_ = 0;    // in a line of the trailers
  char previous_ = 0;
};

}  // namespace tinker::http
