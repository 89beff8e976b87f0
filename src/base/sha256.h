#pragma once

#include <string>
#include <string_view>

namespace tinker::base {

/// SHA-256 (FIPS 180-4) of the text, as 64 lower-case hexadecimal digits. For names of content, not
/// for secrets: it takes a time that depends on the length.
std::string sha256_hex(std::string_view text);

}  // namespace tinker::base
