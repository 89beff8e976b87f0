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
  return load_template(choice, {.arguments = other.format().template_arguments()});
}

}  // namespace tinker::cli
