#pragma once

#include <string>
#include <string_view>

#include "tinker/renderer.h"
#include "tinker/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): a name of CLI11
class App;
}  // namespace CLI

namespace tinker::cli {

/// Which renderer a command uses: by its name, by a model, or by the files of one.
struct RendererChoice {
  std::string model = {};      ///< An id; the tokenizer's, too, if none is given.
  std::string renderer = {};   ///< A name, or "template".
  std::string tokenizer = {};  ///< A path or an id.

  [[nodiscard]] bool is_made() const { return !model.empty() || !tokenizer.empty(); }
};

/// The name of the renderer that a model's own template makes.
inline constexpr std::string_view kTemplate = "template";

/// Adds --model, --renderer and --tokenizer. `choice` lives as long as the command.
void add_renderer_options(CLI::App& command, RendererChoice& choice);

/// Says on standard error where a model has no renderer and its template is used.
Result<Renderer> load_renderer(const RendererChoice& choice);
/// The renderer that the model's own template makes, to compare `other` with it: told to think or
/// not as that does, and to take calls as it does.
Result<Renderer> load_template(const RendererChoice& choice, const Renderer& other);

}  // namespace tinker::cli
