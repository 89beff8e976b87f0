#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tinker::wire {

/// Standard alphabet, with padding (RFC 4648 section 4).
void append_base64(std::string& out, std::string_view bytes);
std::string to_base64(std::string_view bytes);

/// Nothing unless `text` is exactly what an encoder writes: padded, no other characters, no stray
/// bits.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tinker::wire
