#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tinker/chat.h"
#include "tinker/chat_format.h"
#include "tinker/result.h"
#include "tinker/tokenizer.h"
#include "tinker/types/json.h"
#include "tinker/types/model_input.h"
#include "tinker/types/sampling_params.h"

namespace tinker {

/// What some formats write into a conversation.
struct RendererOptions {
  /// The current date, for formats that tell it to the model. Absent: today's.
  std::optional<std::chrono::year_month_day> date = {};
  /// The effort level from 0 to 1 that "tml_v0" writes.
  double effort = 0.9;
  /// The end-of-sequence token of a base model, for "role_colon". Absent: none ends a response.
  std::optional<std::int32_t> eos_token = {};
};

/// What a chat template reads besides the conversation.
struct TemplateOptions {
  /// Texts of the tokens that begin and end a sequence. Empty: what the model's files say.
  std::string bos_token = {};
  std::string eos_token = {};
  /// The date that templates ask for. Absent: the current time.
  std::optional<std::chrono::year_month_day> date = {};
  /// How the template takes the arguments of calls. Most templates write objects as JSON
  /// themselves.
  ToolArguments arguments = ToolArguments::as_object;
  /// Further variables: {{"enable_thinking", false}}.
  JsonObject variables = {};
};

/// From messages to tokens and weights, and from tokens back to messages, exactly as the official
/// cookbook does it.
///
///     auto renderer = Renderer::for_model("Qwen/Qwen3-8B", tokenizer).value();
///     auto prompt = renderer.build_generation_prompt({{.role = "user", .content = "Hi"}}).value();
///     auto answer = sampler.sample(prompt, {.stop = renderer.stop()}).get().value();
///     auto message = renderer.parse_response(answer.sequences[0].tokens).value().message;
///
/// Immutable; copies share everything and may be used on any thread.
class Renderer {
 public:
  /// A renderer by the cookbook's name, such as "qwen3". The error names the renderers there are.
  static Result<Renderer> create(std::string_view name, Tokenizer tokenizer);
  static Result<Renderer> create(std::string_view name,
                                 Tokenizer tokenizer,
                                 const RendererOptions& options);
  /// The recommended renderer of a model. Fails with `not_found` for a model that is not in the
  /// table; such a model has a template of its own: see `from_folder`.
  static Result<Renderer> for_model(std::string_view model, Tokenizer tokenizer);
  static Result<Renderer> for_model(std::string_view model,
                                    Tokenizer tokenizer,
                                    const RendererOptions& options);
  /// A renderer from the chat template that a model ships, in the language of Jinja. Prompts are
  /// what the template renders. Of a message of the assistant, what the template adds to the
  /// message's prompt is trained, up to the token that ends it; where the template does not begin a
  /// message with its prompt, the error says so. Modes that need to know headers are refused, and
  /// so are images.
  static Result<Renderer> from_template(std::string_view source,
                                        Tokenizer tokenizer,
                                        const TemplateOptions& options = {});
  /// The same from a model's folder or GGUF file: its tokenizer (see `Tokenizer::load`), its
  /// template (`chat_template.jinja`, or "chat_template" in `tokenizer_config.json`) and the tokens
  /// that the template names. Fails with `not_found` if there is no template.
  static Result<Renderer> from_folder(const std::filesystem::path& path,
                                      const TemplateOptions& options = {});
  /// A format of your own.
  Renderer(std::string name, std::shared_ptr<const ChatFormat> format)
      : name_(std::move(name)), format_(std::move(format)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const ChatFormat& format() const noexcept { return *format_; }
  [[nodiscard]] const Tokenizer& tokenizer() const noexcept { return format_->tokenizer(); }
  [[nodiscard]] bool has_extension_property() const { return format_->has_extension_property(); }
  /// What ends a message of the model: for `SamplingParams::stop`.
  [[nodiscard]] Stop stop() const { return format_->stop(); }

  /// What the model reads so that it answers as the assistant, or as `role`, whose message begins
  /// with `prefill`.
  [[nodiscard]] Result<ModelInput> build_generation_prompt(std::vector<Message> messages) const;
  [[nodiscard]] Result<ModelInput> build_generation_prompt(std::vector<Message> messages,
                                                           const std::string& role,
                                                           const std::string& prefill) const;
  /// The whole conversation with weights. Where the extension property is missing, earlier turns
  /// are not written as the model wrote them; see `build_supervised_examples`.
  [[nodiscard]] Result<SupervisedExample> build_supervised_example(
      std::vector<Message> messages, TrainOnWhat mode = TrainOnWhat::last_assistant_message) const;
  /// The same as several examples where the format rewrites earlier turns: each turn of the
  /// assistant as it was when it was written.
  [[nodiscard]] Result<std::vector<SupervisedExample>> build_supervised_examples(
      std::vector<Message> messages, TrainOnWhat mode = TrainOnWhat::last_assistant_turn) const;
  [[nodiscard]] Result<ParsedResponse> parse_response(std::span<const std::int32_t> tokens) const;
  /// Messages to begin a conversation with: a system prompt, and what tells the model of tools.
  [[nodiscard]] Result<std::vector<Message>> create_conversation_prefix_with_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt = {}) const;

 private:
  std::string name_;
  std::shared_ptr<const ChatFormat> format_;
};

/// The names that `Renderer::create` knows.
std::vector<std::string_view> renderer_names();
/// The renderers of a model, the recommended one first. A ":suffix" of the model's name does not
/// count. Fails with `not_found` for a model that is not in the table.
Result<std::vector<std::string_view>> renderers_of(std::string_view model);

}  // namespace tinker
