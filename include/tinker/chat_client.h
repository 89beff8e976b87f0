#pragma once

#include "tinker/chat.h"
#include "tinker/chat_format.h"
#include "tinker/renderer.h"
#include "tinker/sampling_client.h"
#include "tinker/types/sample.h"

namespace tinker {

/// What `SamplingClient::chat` brings: the next message of a conversation.
///
///     auto tokenizer = sampler.get_tokenizer().get().value();
///     auto renderer = Renderer::for_model("Qwen/Qwen3-8B", tokenizer).value();
///     auto reply = sampler.chat(renderer, {{.role = "user", .content = "Hi"}}, {}).get().value();
///     std::cout << reply.message().text();
///
/// The prompt is `Renderer::build_generation_prompt`, and the answer ends where the renderer says,
/// unless `SamplingParams::stop` says otherwise. An answer that was cut off is no error: then
/// `response.termination` is `malformed`.
struct ChatReply {
  ParsedResponse response = {};
  SampledSequence sequence = {};  ///< What was sampled, with logprobs.

  [[nodiscard]] const Message& message() const noexcept { return response.message; }
  friend bool operator==(const ChatReply&, const ChatReply&) = default;
};

}  // namespace tinker
