// Where models keep their chat templates: a file of its own, tokenizer_config.json, GGUF metadata.
#include "render/template_files.h"

#include <optional>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/mapped_file.h"
#include "jinja/value.h"
#include "render/python_json.h"
#include "tokenizer/file_reader.h"

namespace tinker::render {

namespace {

using base::concat;
using Path = std::filesystem::path;

constexpr std::string_view kConfig = "tokenizer_config.json";
constexpr std::string_view kTemplateFile = "chat_template.jinja";

Error no_template(const Path& path, std::string_view why) {
  return Error{.code = ErrorCode::not_found,
               .message = concat("no chat template in ", path.string(), ": ", why)};
}

Result<TemplateFiles> read_gguf(const Path& path,
                                const Tokenizer& tokenizer,
                                TemplateOptions options) {
  TINKER_TRY(const auto file, formats::MappedFile::open(path));
  auto gguf = formats::Gguf::parse(file.bytes());
  if (!gguf.ok()) return std::move(gguf).error().with_context(path.string());
  const auto source = gguf->string("tokenizer.chat_template");
  if (!source) return no_template(path, "its metadata have no tokenizer.chat_template");
  const auto name_token = [&](std::string_view key, std::string& text) {
    const auto id = gguf->integer(key);
    if (!text.empty() || !id || !std::in_range<std::int32_t>(*id)) return;
    text = tokenizer.id_to_token(static_cast<std::int32_t>(*id)).value_or("");
  };
  name_token("tokenizer.ggml.bos_token_id", options.bos_token);
  name_token("tokenizer.ggml.eos_token_id", options.eos_token);
  return TemplateFiles{.source = std::string(*source), .options = std::move(options)};
}

/// A member of the configuration as text: alone, or as an object of which it is `inside`.
std::string text_of(const jinja::Dict& config, std::string_view name, std::string_view inside) {
  const auto* value = config.member(name);
  if (value && value->is_dict()) value = value->dict().member(inside);
  return value && value->is_string() ? value->text() : std::string();
}

/// "chat_template": a text, or a list of named ones, of which the one named "default" counts.
std::string template_of(const jinja::Dict& config) {
  const auto* value = config.member("chat_template");
  if (value && value->is_sequence()) {
    for (const auto& entry : value->items()) {
      if (!entry.is_dict() || text_of(entry.dict(), "name", {}) != "default") continue;
      return text_of(entry.dict(), "template", {});
    }
  }
  return text_of(config, "chat_template", "default");
}

Result<TemplateFiles> read_folder(const Path& folder, TemplateOptions options) {
  TemplateFiles out;
  std::error_code error;
  const Path own_file = folder / kTemplateFile;
  if (std::filesystem::exists(own_file, error)) {
    TINKER_TRY(out.source, tokenizer::read_file(own_file));
  }
  const Path config_file = folder / kConfig;
  if (std::filesystem::exists(config_file, error)) {
    TINKER_TRY(const auto text, tokenizer::read_file(config_file));
    auto config = load_json(text);
    if (!config.ok()) return std::move(config).error().with_context(config_file.string());
    if (!config->is_dict()) {
      return Error::invalid_argument(concat(config_file.string(), ": expected an object"));
    }
    const auto& members = config->dict();
    if (out.source.empty()) out.source = template_of(members);
    if (options.bos_token.empty()) options.bos_token = text_of(members, "bos_token", "content");
    if (options.eos_token.empty()) options.eos_token = text_of(members, "eos_token", "content");
  }
  if (out.source.empty()) {
    return no_template(folder,
                       concat("no ", kTemplateFile, ", and no 'chat_template' in a ", kConfig));
  }
  out.options = std::move(options);
  return out;
}

}  // namespace

Result<TemplateFiles> read_template_files(const Path& path,
                                          const Tokenizer& tokenizer,
                                          TemplateOptions options) {
  TINKER_TRY(const auto file, tokenizer::find_tokenizer_file(path));
  if (tokenizer::is_gguf(file)) return read_gguf(file, tokenizer, std::move(options));
  return read_folder(file.parent_path(), std::move(options));
}

}  // namespace tinker::render
