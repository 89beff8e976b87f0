#pragma once

#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::base {

/// A file name that a stranger gave, as a path below a folder of ours: its parts with one '/'
/// between them, without "." among them. Fails with `invalid_response` for one that is absolute,
/// holds "..", a control character or a backslash, names nothing, or is too long for a file system.
Result<std::string> clean_relative_path(std::string_view text);

/// `text` for messages: in quotes, control characters escaped, cut where it gets long.
std::string quoted(std::string_view text);

}  // namespace tinker::base
