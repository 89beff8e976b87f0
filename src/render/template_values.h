#pragma once

#include <chrono>
#include <string_view>

#include "jinja/value.h"
#include "tinker/chat.h"
#include "tinker/result.h"

// What a chat template is given.
namespace tinker::render {

/// A message in OpenAI's form; `reasoning` is the template's name for the thinking.
Result<jinja::Value> message_value(const Message& message,
                                   std::string_view reasoning,
                                   ToolArguments form);

/// What the clock on the wall shows.
std::chrono::sys_seconds local_time();

}  // namespace tinker::render
