#include "tinker/renderer.h"

#include <utility>

#include "base/strings.h"
#include "render/registry.h"
#include "render/template_files.h"
#include "render/template_format.h"

namespace tinker {

Result<Renderer> Renderer::create(std::string_view name, Tokenizer tokenizer) {
  return create(name, std::move(tokenizer), {});
}

Result<Renderer> Renderer::create(std::string_view name,
                                  Tokenizer tokenizer,
                                  const RendererOptions& options) {
  TINKER_TRY(auto format, render::make_format(name, std::move(tokenizer), options));
  return Renderer(std::string(name), std::move(format));
}

Result<Renderer> Renderer::for_model(std::string_view model, Tokenizer tokenizer) {
  return for_model(model, std::move(tokenizer), {});
}

Result<Renderer> Renderer::for_model(std::string_view model,
                                     Tokenizer tokenizer,
                                     const RendererOptions& options) {
  TINKER_TRY(const auto names, renderers_of(model));
  return create(names.front(), std::move(tokenizer), options);
}

Result<Renderer> Renderer::from_template(std::string_view source,
                                         Tokenizer tokenizer,
                                         const TemplateOptions& options) {
  TINKER_TRY(auto format, render::make_template_format(source, std::move(tokenizer), options));
  return Renderer("template", std::move(format));
}

Result<Renderer> Renderer::from_folder(const std::filesystem::path& path,
                                       const TemplateOptions& options) {
  TINKER_TRY(auto tokenizer, Tokenizer::load(path));
  TINKER_TRY(const auto files, render::read_template_files(path, tokenizer, options));
  auto out = from_template(files.source, std::move(tokenizer), files.options);
  if (!out.ok()) return std::move(out).error().with_context(path.string());
  return out;
}

Result<ModelInput> Renderer::build_generation_prompt(std::vector<Message> messages) const {
  return build_generation_prompt(std::move(messages), "assistant", {});
}

Result<ModelInput> Renderer::build_generation_prompt(std::vector<Message> messages,
                                                     const std::string& role,
                                                     const std::string& prefill) const {
  TINKER_TRY(const auto prepared, format_->prepare(std::move(messages)));
  return format_->prompt(prepared, role, prefill);
}

Result<SupervisedExample> Renderer::build_supervised_example(std::vector<Message> messages,
                                                             TrainOnWhat mode) const {
  TINKER_TRY(const auto prepared, format_->prepare(std::move(messages)));
  return format_->supervised(prepared, mode);
}

Result<std::vector<SupervisedExample>> Renderer::build_supervised_examples(
    std::vector<Message> messages, TrainOnWhat mode) const {
  TINKER_TRY(const auto prepared, format_->prepare(std::move(messages)));
  return format_->split(prepared, mode);
}

Result<ParsedResponse> Renderer::parse_response(std::span<const std::int32_t> tokens) const {
  return format_->parse(tokens);
}

Result<std::vector<Message>> Renderer::create_conversation_prefix_with_tools(
    std::span<const ToolSpec> tools, std::string_view system_prompt) const {
  return format_->declare_tools(tools, system_prompt);
}

}  // namespace tinker
