#pragma once

#include <string_view>

#include "jinja/value.h"
#include "tinker/result.h"

namespace tinker::render {

/// Reads what Python's `json.loads` reads: NaN and infinities are numbers, integers have any
/// length, of equal names the last one counts. The error's message is Python's.
Result<jinja::Value> read_python_json(std::string_view text);

}  // namespace tinker::render
