#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/chat.h"
#include "tinker/result.h"

namespace tinker::render {

/// The content of formats that know nothing but text: a plain text, or a single text part.
Result<std::string> plain_text(const Message& message);
/// Whether there is a thinking part, or "<think>" in a plain text.
bool has_thinking(const Content& content);
/// Without the thinking parts.
std::vector<ContentPart> without_thinking(const std::vector<ContentPart>& parts);
/// "an image": for messages.
std::string_view described(const ContentPart& part);
/// What a message cannot have in a format.
Error refused_part(const Message& message, const ContentPart& part);
Error refused_role(const Message& message);

/// The roles of messages in OpenAI's form and the cookbook's, and Llama's name for results of
/// tools.
inline constexpr std::array<std::string_view, 7> kRoles = {
    "system", "developer", "user", "assistant", "tool", "ipython", "tool_declare"};
/// "system, developer, …": for messages.
std::string joined_roles();

/// How many positions of a model's context a chunk takes. Fails where that is unknown, or no number
/// of tokens that there could be.
Result<std::size_t> positions_of(const ModelInputChunk& chunk);

/// The calls of a message; none where there is no list.
const std::vector<ToolCall>& calls_of(const Message& message);

}  // namespace tinker::render
