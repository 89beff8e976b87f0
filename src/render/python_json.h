#pragma once

#include <span>
#include <string>
#include <string_view>

#include "jinja/builtins.h"
#include "jinja/value.h"
#include "tinker/chat.h"
#include "tinker/result.h"
#include "tinker/types/json.h"

namespace tinker::render {

/// A JSON value as a value of templates: members keep their order, of equal names the last one
/// counts, as in Python.
jinja::Value to_value(const Json& json);
/// The tools as OpenAI lists them: {"type": "function", "function": …} each.
jinja::Value openai_tools(std::span<const ToolSpec> tools);
/// Reads a document. The error's message begins with "Invalid JSON: ".
Result<jinja::Value> load_json(std::string_view text);

/// The arguments of a call; the error names the function.
Result<jinja::Value> load_arguments(const ToolCall& call);

// NOLINTBEGIN(bugprone-throwing-static-initialization): strings this short need no memory.
// What Python's `json.dumps` writes.
inline const jinja::JsonStyle kAsciiJson = {
    .is_ascii = true, .item_separator = ", ", .key_separator = ": "};
/// With `ensure_ascii=False`.
inline const jinja::JsonStyle kUnicodeJson = {.item_separator = ", ", .key_separator = ": "};
// NOLINTEND(bugprone-throwing-static-initialization)

/// Fails for what is nested too deeply.
Result<std::string> dump_json(const jinja::Value& value, const jinja::JsonStyle& style);
Result<std::string> dump_json(const Json& json, const jinja::JsonStyle& style);

}  // namespace tinker::render
