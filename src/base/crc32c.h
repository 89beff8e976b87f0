#pragma once

#include <cstdint>
#include <string_view>

namespace tinker::base {

/// The CRC-32C (Castagnoli; RFC 9260, appendix A) of `bytes` behind text whose CRC is `before`:
/// `crc32c(b, crc32c(a))` is that of both.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0) noexcept;

}  // namespace tinker::base
