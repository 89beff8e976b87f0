#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"
#include "tinker/result.h"

// JSON as Inkling reads it, written by Rust's serde: compact, keys sorted, text as UTF-8.
namespace tinker::render {

/// A call: {"name":"f","args":{…}}. The keys of the arguments are sorted, those inside of them are
/// not. Fails for what is not a JSON object, or has a number that is none.
Result<std::string> inkling_call(std::string_view name, std::string_view arguments);
/// What a "tool_declare" message, a JSON list of tools in OpenAI's form, becomes.
Result<std::string> inkling_tools(std::string_view declaration);

}  // namespace tinker::render
