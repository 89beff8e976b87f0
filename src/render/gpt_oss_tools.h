#pragma once

#include <span>
#include <string>

#include "tinker/chat.h"
#include "tinker/result.h"

namespace tinker::render {

/// Tools as gpt-oss reads them: "type get_weather = (_:\n{\ncity: string,\n}) => any;", one after
/// the other.
Result<std::string> gpt_oss_declarations(std::span<const ToolSpec> tools);

}  // namespace tinker::render
