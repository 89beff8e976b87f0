#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/tokenizer.h"
#include "tinker/types/json.h"
#include "wire/json_reader.h"

// What the official renderers make of conversations, and the tokenizers they did it with.
namespace tinker::testing {

/// A file of entries: a JSON list of objects.
struct GoldenFile {
  std::filesystem::path path = {};
  wire::JsonDocument document;

  /// The entries of one renderer.
  [[nodiscard]] std::vector<wire::JsonView> entries_of(std::string_view renderer) const;
  /// All renderers that it has entries of, each once.
  [[nodiscard]] std::vector<std::string> renderers() const;
};

/// Conversations: $TINKER_RENDERER_GOLDENS or what is beside the checkout, and the project's own
/// sample. A file that is not there is left out.
const std::vector<GoldenFile>& conversation_goldens();
/// Responses: $TINKER_RENDERER_PARSES.
const std::vector<GoldenFile>& response_goldens();

/// The tokenizer of a model, read once: $TINKER_TOKENIZERS/renderers/MODEL. Nothing if there is no
/// such folder.
std::optional<Tokenizer> tokenizer_of(std::string_view model);
/// Where `tokenizer_of` looks.
std::filesystem::path tokenizer_folder(std::string_view model);

/// The token that ends a text of this model, for renderers that are told.
std::optional<std::int32_t> eos_token_of(std::string_view model, const Tokenizer& tokenizer);

Json json_of(wire::JsonView view);

}  // namespace tinker::testing
