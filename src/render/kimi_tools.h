#pragma once

#include <span>
#include <string>

#include "tinker/chat.h"
#include "tinker/result.h"

namespace tinker::render {

/// Tools as Kimi K2.5 is told of them: declarations of functions in TypeScript. Fails for a schema
/// that has no such type.
Result<std::string> typescript_tools(std::span<const ToolSpec> tools);

}  // namespace tinker::render
