#pragma once

#include <cstddef>
#include <span>

#include "tinker/chat_format.h"

namespace tinker::render {

/// Each message says whether it is trained, or none does: that is up to the mode.
Result<void> check_trainable(std::span<const Message> messages, TrainOnWhat mode);

/// For `customized` where a conversation becomes several examples: what is trained is the
/// assistant's.
Result<void> check_trained_roles(std::span<const Message> messages);

/// Whether the mode names messages of the assistant, which is what a conversation is split into.
bool names_turns(TrainOnWhat mode);

/// Whether the output of message `index` is trained. `turn_start`: of the last turn.
bool is_trained(std::span<const Message> messages,
                std::size_t index,
                std::size_t turn_start,
                TrainOnWhat mode);

}  // namespace tinker::render
