#pragma once

#include <vector>

#include "tinker/chat.h"
#include "tinker/renderer.h"
#include "tinker/result.h"

namespace tinker::render {

/// The messages with those before them that tell the model of the tools.
Result<std::vector<Message>> with_tools(const Conversation& conversation, const Renderer& renderer);

}  // namespace tinker::render
