#pragma once

#include <string>
#include <string_view>

namespace tinker::cli {

/// As it can be shown on one line: control characters and bytes that are no text escaped.
std::string visible(std::string_view bytes);

/// Whether standard output is a terminal, and nobody said NO_COLOR.
bool has_colours();

}  // namespace tinker::cli
