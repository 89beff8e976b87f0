#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tinker/tokenizer.h"

namespace tinker::testing {

/// The control tokens of all chat formats.
inline constexpr std::array<std::string_view, 73> kChatTokens = {
    // Llama 3
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    // Qwen, Nemotron
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    // DeepSeek
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜System｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "<｜tool▁sep｜>",
    "｜DSML｜",
    // Kimi
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_system|>",
    "<|im_middle|>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|media_begin|>",
    "<|media_content|>",
    "<|media_end|>",
    // GLM
    "[gMASK]",
    "<sop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    // gpt-oss
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    // Inkling
    "<|message_user|>",
    "<|message_model|>",
    "<|message_system|>",
    "<|message_tool|>",
    "<|content_text|>",
    "<|content_image|>",
    "<|content_model_end_sampling|>",
    "<|content_thinking|>",
    "<|end_message|>",
    "<|content_audio_input|>",
    "<|content_tool_error|>",
    "<|content_xml|>",
    "<|content_invoke_tool_json|>",
    "<|content_invoke_tool_text|>",
};

/// How GPT-2 spells a byte: as a letter of its own.
inline std::string spelled_byte(unsigned byte) {
  unsigned letter = byte;
  if (byte <= 32) letter = 256 + byte;
  if (byte >= 127 && byte <= 160) letter = 256 + 33 + (byte - 127);
  if (byte == 173) letter = 256 + 33 + 34;
  if (letter == '"' || letter == '\\') return std::string("\\") + static_cast<char>(letter);
  if (letter < 128) return {static_cast<char>(letter)};
  return {static_cast<char>(0xC0U | (letter >> 6U)), static_cast<char>(0x80U | (letter & 0x3FU))};
}

/// A token for each byte, 0 to 255, and behind them those of `kChatTokens`: good for every format.
/// As in the vocabularies of real models, "<think>" and the like are found in any text.
inline Tokenizer chat_tokenizer() {
  std::string vocabulary;
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocabulary += (byte == 0 ? "\"" : ",\"") + spelled_byte(byte) + "\":" + std::to_string(byte);
  }
  std::string added;
  std::size_t id = 256;
  for (const auto token : kChatTokens) {
    const bool is_text = token.starts_with("<think") || token.starts_with("</") ||
                         token.starts_with("<tool_") || token.starts_with("<arg_");
    added += (added.empty() ? "{\"id\":" : ",{\"id\":") + std::to_string(id++) + ",\"content\":\"" +
             std::string(token) +
             "\",\"normalized\":false,\"special\":" + (is_text ? "false}" : "true}");
  }
  return Tokenizer::from_json(
             "{\"added_tokens\":[" + added +
             "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
             "\"use_regex\":false},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":"
             "\"BPE\",\"vocab\":{" +
             vocabulary + "},\"merges\":[]}}")
      .value();
}

}  // namespace tinker::testing
