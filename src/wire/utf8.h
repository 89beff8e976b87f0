#pragma once

#include <string>
#include <string_view>

namespace tinker::wire {

/// Whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

/// `text` with a replacement character (U+FFFD) in place of each byte that is not part of one.
std::string as_utf8(std::string text);

}  // namespace tinker::wire
