#pragma once

#include <string>
#include <vector>

#include "jinja/value.h"
#include "tinker/chat.h"
#include "tinker/chat_format.h"
#include "tinker/result.h"

// How DeepSeek V4.1 writes calls: "<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n<｜DSML｜
// parameter name="p" string="true">v</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>".
namespace tinker::render {

/// What tells the model of tools, `specs`.
Result<std::string> dsml_tools(const jinja::List& specs);
/// What a response with reasoning and calls is made of. Behind calls nothing counts.
ResponseSyntax dsml_syntax();
/// Calls with the newlines before them; nothing if there are none.
Result<std::string> dsml_calls(const std::vector<ToolCall>& calls);
/// Moves the calls out of a content that is plain text. All that looks like one and is none becomes
/// an unparsed call.
void read_dsml(Message& message);

}  // namespace tinker::render
