#include "server/bech32.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/strings.h"
#include "http/ascii.h"

// A text is its prefix, '1', and the bytes in groups of five bits, a character for each, the last
// six of which are a checksum: a BCH code that finds any four wrong characters.
namespace tinker::server {
namespace {

constexpr std::string_view kAlphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
constexpr std::size_t kChecksumGroups = 6;

/// The remainder so far, one group further.
std::uint32_t next_checksum(std::uint32_t sum, std::uint32_t group) noexcept {
  constexpr std::array<std::uint32_t, 5> kGenerator = {
      0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3};
  const std::uint32_t top = sum >> 25U;
  sum = (sum & 0x1ffffffU) << 5U ^ group;
  for (std::size_t i = 0; i < kGenerator.size(); ++i) {
    if ((top >> i & 1U) != 0) sum ^= kGenerator[i];
  }
  return sum;
}

std::uint32_t prefix_checksum(std::string_view prefix) noexcept {
  std::uint32_t sum = 1;
  for (const char c : prefix) sum = next_checksum(sum, static_cast<std::uint32_t>(c) >> 5U);
  sum = next_checksum(sum, 0);
  for (const char c : prefix) sum = next_checksum(sum, static_cast<std::uint32_t>(c) & 31U);
  return sum;
}

/// The same bits in groups of another size; what is left over at the end is in `rest`.
template <unsigned kFrom, unsigned kTo>
std::string regroup(std::string_view groups, std::uint32_t& rest, unsigned& rest_bits) {
  std::string out;
  rest = 0;
  rest_bits = 0;
  for (const char group : groups) {
    rest = rest << kFrom | static_cast<std::uint8_t>(group);
    rest_bits += kFrom;
    for (; rest_bits >= kTo; rest_bits -= kTo) {
      out += static_cast<char>(rest >> (rest_bits - kTo) & ((1U << kTo) - 1U));
    }
    rest &= (1U << rest_bits) - 1U;
  }
  return out;
}

Error refuse(std::string_view why) {
  return {.code = ErrorCode::invalid_argument, .message = std::string(why)};
}

bool is_lower(char c) noexcept {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) noexcept {
  return c >= 'A' && c <= 'Z';
}

}  // namespace

std::string to_bech32(const Bech32& key) {
  std::uint32_t rest = 0;
  unsigned rest_bits = 0;
  std::string groups = regroup<8, 5>(key.bytes, rest, rest_bits);
  if (rest_bits != 0) groups += static_cast<char>(rest << (5U - rest_bits));

  std::uint32_t sum = prefix_checksum(http::ascii::to_lower(key.prefix));
  for (const char group : groups) sum = next_checksum(sum, static_cast<std::uint8_t>(group));
  for (std::size_t i = 0; i < kChecksumGroups; ++i) sum = next_checksum(sum, 0);
  sum ^= 1U;
  for (unsigned i = 0; i < kChecksumGroups; ++i) {
    groups += static_cast<char>(sum >> (25U - 5U * i) & 31U);
  }

  const bool is_upper_case = std::ranges::any_of(key.prefix, is_upper);
  std::string out = base::concat(key.prefix, '1');
  for (const char group : groups) {
    const char c = kAlphabet[static_cast<std::uint8_t>(group)];
    out += is_upper_case && is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}

Result<Bech32> from_bech32(std::string_view text) {
  const std::size_t separator = text.rfind('1');
  if (separator == std::string_view::npos || separator == 0) return refuse("it has no prefix");
  if (text.size() - separator - 1 < kChecksumGroups) return refuse("it is cut short");
  if (std::ranges::any_of(text, is_lower) && std::ranges::any_of(text, is_upper)) {
    return refuse("it mixes upper and lower case");
  }
  const std::string lower = http::ascii::to_lower(text);
  const auto prefix = std::string_view(lower).substr(0, separator);
  if (!std::ranges::all_of(prefix, [](char c) { return c > ' ' && c < '\x7f'; })) {
    return refuse("it holds a character that is not printable");
  }

  std::string groups;
  std::uint32_t sum = prefix_checksum(prefix);
  for (const char c : std::string_view(lower).substr(separator + 1)) {
    const auto group = kAlphabet.find(c);
    if (group == std::string_view::npos) return refuse("it holds a character that no key has");
    groups += static_cast<char>(group);
    sum = next_checksum(sum, static_cast<std::uint32_t>(group));
  }
  if (sum != 1) return refuse("its checksum is wrong");
  groups.resize(groups.size() - kChecksumGroups);

  std::uint32_t rest = 0;
  unsigned rest_bits = 0;
  std::string bytes = regroup<5, 8>(groups, rest, rest_bits);
  if (rest_bits >= 5 || rest != 0) return refuse("it does not end at a byte");
  return Bech32{.prefix = std::string(text.substr(0, separator)), .bytes = std::move(bytes)};
}

}  // namespace tinker::server
