#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/chat_format.h"

// What the formats of the Qwen models have in common. They write
// "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n".
namespace tinker::render {

inline constexpr std::string_view kImStart = "<|im_start|>";
inline constexpr std::string_view kImEnd = "<|im_end|>";
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
/// Says that there was no reasoning.
inline constexpr std::string_view kEmptyThinking = "<think>\n\n</think>\n\n";

/// "\n<|im_start|>user\n"; the first message has no newline before it.
std::string im_header(const MessagePlace& place, std::string_view role);
/// Results of tools are told by the user.
std::string_view im_role(const Message& message);

/// The calls as JSON, a "<tool_call>" block each, joined by newlines. Fails where arguments are no
/// JSON.
Result<std::string> json_calls(const std::vector<ToolCall>& calls);
/// The system message of Qwen3 that lists tools.
Result<std::vector<Message>> qwen3_tools(std::span<const ToolSpec> tools,
                                         std::string_view system_prompt);
/// A response with reasoning and JSON calls.
Result<ParsedResponse> parse_qwen3(const Tokenizer& tokenizer,
                                   std::span<const std::int32_t> tokens,
                                   std::int32_t end,
                                   bool unframes_thinking);

/// What such a response is made of.
ResponseSyntax qwen3_syntax(bool unframes_thinking);

/// Text and images in order.
using TextOrImage = std::variant<std::string, ImageChunk>;

}  // namespace tinker::render
