#pragma once

#include <vector>

#include "tinker/chat.h"
#include "tinker/renderer.h"
#include "tinker/result.h"

namespace tinker::render {

/// The messages with those before them that tell the model of the tools.
Result<std::vector<Message>> with_tools(const Conversation& conversation, const Renderer& renderer);

/// What training makes of a conversation. Refuses roles that the format does not know, and calls
/// that it would leave out.
Result<std::vector<SupervisedExample>> examples_of(const Conversation& conversation,
                                                   const Renderer& renderer,
                                                   TrainOnWhat mode,
                                                   bool splits);

}  // namespace tinker::render
