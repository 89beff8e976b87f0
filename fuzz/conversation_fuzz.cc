// Any JSON as a conversation with tools, in every format and mode: tokens with a weight each, or
// refused.
#include <cstdint>
#include <string_view>

#include "render_support.h"
#include "tinker/training_data.h"

namespace {

using tinker::Renderer;
using tinker::SupervisedExample;
using tinker::TrainOnWhat;

void check_example(SupervisedExample example) {
  const auto length = example.input.length();
  TINKER_CHECK(length.ok() && example.weights.size() == static_cast<std::size_t>(*length));
  const std::size_t half = example.weights.size() / 2;
  const auto datum = tinker::to_datum(std::move(example), {.max_length = half});
  if (datum.ok()) TINKER_CHECK(datum->validate().ok());
}

void render(const Renderer& renderer,
            const std::vector<tinker::Message>& messages,
            TrainOnWhat mode) {
  const auto prompt = renderer.build_generation_prompt(messages);
  if (prompt.ok()) TINKER_CHECK(prompt->to_tokens().ok());
  auto example = renderer.build_supervised_example(messages, mode);
  if (example.ok()) check_example(*std::move(example));
  auto examples = renderer.build_supervised_examples(messages, mode);
  if (!examples.ok()) return;
  for (auto& each : *examples) check_example(std::move(each));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint8_t kModes = 7;
  if (size < 2) return 0;
  const auto& renderer = tinker::testing::any_renderer(data[0]);
  const auto mode = static_cast<TrainOnWhat>(data[1] % kModes);
  const std::string_view json(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto conversation = tinker::Conversation::parse(json);
  if (!conversation.ok()) return 0;
  auto messages = conversation->messages;
  render(renderer, messages, mode);
  for (const auto& message : messages) {
    const auto read = tinker::Message::from_json(tinker::to_json(message));
    TINKER_CHECK(read.ok() && *read == message);
    (void)tinker::to_openai_json(message, tinker::ToolArguments::as_object);
  }
  auto prefix = renderer.create_conversation_prefix_with_tools(conversation->tools, "Be brief.");
  if (!prefix.ok()) return 0;
  messages.insert(messages.begin(), prefix->begin(), prefix->end());
  render(renderer, messages, mode);
  return 0;
}
