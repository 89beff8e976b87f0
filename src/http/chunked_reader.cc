#include "http/chunked_reader.h"

#include <algorithm>

#include "http/ascii.h"

namespace tinker::http {

namespace {

constexpr std::uint32_t kMaxDigits = 15;  // so that no sum overflows
constexpr std::uint32_t kMaxExtensionBytes = 1024;
constexpr std::uint32_t kMaxTrailerBytes = 16 << 10;

}  // namespace

std::string_view ChunkedReader::next(std::string_view& bytes) {
  while (!bytes.empty() && state_ != State::complete && state_ != State::broken) {
    if (state_ == State::data) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
      const std::string_view piece = bytes.substr(0, size);
      bytes.remove_prefix(size);
      left_ -= size;
      if (left_ == 0) state_ = State::data_cr;
      return piece;
    }
    take(bytes.front());
    bytes.remove_prefix(1);
  }
  return {};
}

void ChunkedReader::take(char c) {
  switch (state_) {
    case State::size: return take_size(c);
    case State::extension:
      if (c == '\r') {
        state_ = State::size_end;
      } else if (++overhead_ > kMaxExtensionBytes || (ascii::is_control(c) && c != '\t')) {
        state_ = State::broken;
      }
      return;
    case State::size_end:
      if (c != '\n') {
        state_ = State::broken;
      } else {
        state_ = left_ == 0 ? State::trailer : State::data;
        overhead_ = digits_ = 0;
      }
      return;
    case State::data_cr: state_ = c == '\r' ? State::data_lf : State::broken; return;
    case State::data_lf: state_ = c == '\n' ? State::size : State::broken; return;
    case State::trailer: return take_trailer(c);
    case State::data:
    case State::complete:
    case State::broken: return;
  }
}

void ChunkedReader::take_size(char c) {
  if (const int digit = ascii::hex_value(c); digit >= 0) {
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
    if (++digits_ > kMaxDigits) state_ = State::broken;
  } else if (digits_ > 0 && c == '\r') {
    state_ = State::size_end;
  } else {
    state_ = digits_ > 0 && c == ';' ? State::extension : State::broken;
  }
}

void ChunkedReader::take_trailer(char c) {
  const bool is_line_end = c == '\n';
  if (++overhead_ > kMaxTrailerBytes || (is_line_end != (previous_ == '\r'))) {
    state_ = State::broken;
  } else if (is_line_end) {
    if (column_ == 1) state_ = State::complete;  // a line that is its '\r' alone
    column_ = 0;
  } else {
    ++column_;
  }
  previous_ = c;
}

}  // namespace tinker::http
