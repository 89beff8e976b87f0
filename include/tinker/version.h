#pragma once

#include <string_view>

namespace tinker {

/// This library's version, "major.minor.patch".
std::string_view version() noexcept;

/// The release of the official SDK whose protocol this library speaks, e.g. "0.36.0". Sent to
/// servers as `sdk_version`.
std::string_view protocol_version() noexcept;

}  // namespace tinker
