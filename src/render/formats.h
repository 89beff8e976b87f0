#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

#include "tinker/chat_format.h"
#include "tinker/renderer.h"
#include "tinker/result.h"

// The formats, each in a file of its name. A factory fails where the tokenizer lacks a token.
namespace tinker::render {

using Format = Result<std::shared_ptr<const ChatFormat>>;

template <std::derived_from<ChatFormat> T, typename... Args>
Format shared(Args&&... args) {
  return std::shared_ptr<const ChatFormat>(std::make_shared<T>(std::forward<Args>(args)...));
}

/// Fails unless the tokenizer has all of them.
Result<void> require_tokens(const Tokenizer& tokenizer,
                            std::initializer_list<std::string_view> tokens);
/// Likewise for tokens that are found in what people and models write, too.
Result<void> require_plain_tokens(const Tokenizer& tokenizer,
                                  std::initializer_list<std::string_view> tokens);

Format make_role_colon(Tokenizer tokenizer, const RendererOptions& options);
Format make_llama3(Tokenizer tokenizer);

enum class Qwen3 { thinking, no_thinking, instruct };
Format make_qwen3(Tokenizer tokenizer, Qwen3 variant);
enum class Qwen3Vl { thinking, instruct };
Format make_qwen3_vl(Tokenizer tokenizer, Qwen3Vl variant);
enum class Qwen35 { strips_thinking, no_thinking, keeps_thinking };
Format make_qwen3_5(Tokenizer tokenizer, Qwen35 variant);
enum class Qwen38 { xhigh, medium, low, no_thinking };
Format make_qwen3_8(Tokenizer tokenizer, Qwen38 variant);
enum class Nemotron3 { thinking, low, medium, no_thinking, keeps_thinking };
/// `is_ultra`: the larger models, which write reasoning without a newline before its end.
Format make_nemotron3(Tokenizer tokenizer, Nemotron3 variant, bool is_ultra);
enum class DeepSeekV3 { no_thinking, thinking };
Format make_deepseek_v3(Tokenizer tokenizer, DeepSeekV3 variant);
enum class DeepSeekV41 { high, low, max, no_thinking, keeps_thinking };
Format make_deepseek_v4_1(Tokenizer tokenizer, DeepSeekV41 variant);
enum class Kimi { k2, k25, k25_no_thinking, k26_keeps_thinking };
Format make_kimi(Tokenizer tokenizer, Kimi variant);
enum class Glm53 { max, high, low };
Format make_glm5_3(Tokenizer tokenizer, Glm53 variant);
enum class GptOss { no_system_prompt, low, medium, high };
Format make_gpt_oss(Tokenizer tokenizer, GptOss variant, const RendererOptions& options);
Format make_tml_v0(Tokenizer tokenizer, const RendererOptions& options);

}  // namespace tinker::render
