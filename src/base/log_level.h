#pragma once

#include <optional>
#include <string_view>

#include "tinker/log.h"
#include "tinker/result.h"

namespace tinker::base {

/// The level that a text of `TINKER_LOG` names; nothing for "off" and for an empty text. Exact and
/// lower case, as the official SDK reads it; anything else is `invalid_argument`.
Result<std::optional<LogLevel>> parse_log_level(std::string_view text);

}  // namespace tinker::base
