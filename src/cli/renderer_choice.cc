#include "cli/renderer_choice.h"

#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>

#include "tinker/hub.h"
#include "tinker/tokenizer.h"

namespace tinker::cli {
namespace {

/// Where the files of the choice are: a path, or the id of a repository.
const std::string& files_of(const RendererChoice& choice) {
  return choice.tokenizer.empty() ? choice.model : choice.tokenizer;
}

bool are_here(const RendererChoice& choice) {
  std::error_code error;
  return !choice.tokenizer.empty() && std::filesystem::exists(choice.tokenizer, error);
}

/// Brings the tokenizer and the template of a model; the folder where they are.
Result<std::filesystem::path> fetch_files(std::string_view model) {
  TINKER_TRY(const auto id, TokenizerId::of_model(model));
  TINKER_TRY(const auto hub, Hub::open());
  TINKER_TRY(hub.tokenizer(id).get());
  const auto config = hub.file(id.repository, "tokenizer_config.json", id.revision).get();
  const auto own_file = hub.file(id.repository, "chat_template.jinja", id.revision).get();
  if (own_file.ok()) return own_file->parent_path();
  if (config.ok()) return config->parent_path();
  return config.error();
}

Result<Tokenizer> load_tokenizer(const RendererChoice& choice) {
  if (are_here(choice)) return Tokenizer::load(choice.tokenizer);
  TINKER_TRY(auto id, TokenizerId::of_model(files_of(choice)));
  TINKER_TRY(const auto hub, Hub::open());
  return hub.tokenizer(std::move(id)).get();
}

/// What a template has to be told so that it does what the renderer's name says. Templates call the
/// same by several names, and pass over those that they do not know.
JsonObject variables_of(std::string_view renderer) {
  JsonObject out;
  const auto set_thinking = [&out](bool is_on) {
    out.emplace_back("enable_thinking", is_on);
    out.emplace_back("thinking", is_on);
  };
  if (renderer.ends_with("_disable_thinking")) {
    set_thinking(false);
  } else if (renderer.ends_with("v3_thinking")) {
    set_thinking(true);
  } else if (renderer.ends_with("_preserve_thinking")) {
    out.emplace_back("preserve_thinking", true);
    out.emplace_back("truncate_history_thinking", false);
  }
  constexpr std::string_view kEffort = "_reasoning";
  if (renderer.ends_with(kEffort)) {
    renderer.remove_suffix(kEffort.size());
    out.emplace_back("reasoning_effort", std::string(renderer.substr(renderer.rfind('_') + 1)));
  }
  return out;
}

Result<Renderer> load_template(const RendererChoice& choice, const TemplateOptions& options) {
  if (are_here(choice)) return Renderer::from_folder(choice.tokenizer, options);
  TINKER_TRY(const auto folder, fetch_files(files_of(choice)));
  return Renderer::from_folder(folder, options);
}

}  // namespace

void add_renderer_options(CLI::App& command, RendererChoice& choice) {
  command.add_option("--model", choice.model, "Model id, e.g. Qwen/Qwen3-8B: its renderer");
  command.add_option(
      "--renderer", choice.renderer, "Renderer by its name; 'template': the model's own template");
  command.add_option("--tokenizer",
                     choice.tokenizer,
                     "Folder or file of the tokenizer on this machine, or the id of a model");
}

Result<Renderer> load_renderer(const RendererChoice& choice) {
  if (choice.renderer == kTemplate) return load_template(choice, TemplateOptions());
  if (!choice.renderer.empty()) {
    TINKER_TRY(auto tokenizer, load_tokenizer(choice));
    return Renderer::create(choice.renderer, std::move(tokenizer));
  }
  const bool has_id = !choice.model.empty() || !are_here(choice);
  const auto& id = choice.model.empty() ? choice.tokenizer : choice.model;
  if (has_id && renderers_of(id).ok()) {
    TINKER_TRY(auto tokenizer, load_tokenizer(choice));
    return Renderer::for_model(id, std::move(tokenizer));
  }
  if (has_id) {
    std::cerr << "tinker: no renderer is known for '" << id << "', its own template is used\n";
  }
  return load_template(choice, TemplateOptions());
}

Result<Renderer> load_template(const RendererChoice& choice, const Renderer& other) {
  return load_template(
      choice,
      {.arguments = other.format().template_arguments(), .variables = variables_of(other.name())});
}

}  // namespace tinker::cli
