#include "server/model_source.h"

#include <system_error>
#include <utility>

#include "base/relative_path.h"
#include "base/strings.h"
#include "engine/model_files.h"
#include "formats/gguf.h"
#include "formats/mapped_file.h"
#include "tinker/hub.h"
#include "tokenizer/hub_cache.h"
#include "tokenizer/hub_core.h"

namespace tinker::server {

namespace fs = std::filesystem;

namespace {

Error refuse(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The path without links and dots, so that one file has one name.
Result<fs::path> existing(std::string_view what, const fs::path& path) {
  std::error_code error;
  auto out = fs::canonical(path, error);
  if (error) {
    return refuse(
        base::concat(what, " ", base::quoted(path.string()), " cannot be read: ", error.message()));
  }
  return out;
}

Result<ModelSource> read_model(fs::path path) {
  TINKER_TRY(const auto files, engine::ModelFiles::open(path));
  return ModelSource{.path = std::move(path), .config = files.config()};
}

/// The GGUF file that the model is, or that is alone in its folder, if it has a vocabulary.
std::optional<fs::path> gguf_with_vocabulary(const fs::path& path) {
  fs::path file = path;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".gguf") file = entry->path();
  }
  if (fs::is_directory(file, error)) return std::nullopt;
  const auto bytes = formats::MappedFile::open(file);
  if (!bytes.ok()) return std::nullopt;
  const auto gguf = formats::Gguf::parse(bytes->bytes());
  if (!gguf.ok() || !gguf->has("tokenizer.ggml.tokens")) return std::nullopt;
  return file;
}

bool has_tokenizer_file(const fs::path& folder) {
  return is_there(folder / "tokenizer.json") || is_there(folder / "tiktoken.model");
}

/// The path as the name of a tokenizer, unless it has a ':': clients cut names there.
std::string uncut(const fs::path& path) {
  return path.string().find(':') == std::string::npos ? path.string() : std::string();
}

/// How clients name a tokenizer that is a folder or a file here, if transformers can read it.
std::string local_id_of(const fs::path& tokenizer) {
  const auto name = tokenizer.filename();
  const bool is_file = name == "tokenizer.json" || name == "tiktoken.model";
  const auto folder = is_file ? tokenizer.parent_path() : tokenizer;
  return has_tokenizer_file(folder) ? uncut(folder) : std::string();
}

/// "Qwen/Qwen3-8B", as clients look it up.
std::string hub_id_of(const std::string& name) {
  if (name.find('/') == std::string::npos) return {};
  const auto id = TokenizerId::of_model(name);
  return id.ok() ? id->repository : std::string();
}

tokenizer::HubPath config_of_repository(const std::string& repository) {
  return {.repository = repository, .revision = "main", .name = "config.json"};
}

}  // namespace

std::optional<std::string> hub_repository(const ServedModel& model) {
  const auto& id = model.source.empty() ? model.name : model.source;
  if (!tokenizer::check(config_of_repository(id)).ok()) return std::nullopt;
  // "models" and "small.gguf" are names on this machine, also where there is no such file.
  const bool is_id = model.source.empty() || (id.find('/') != std::string::npos && !is_there(id));
  return is_id ? std::optional(id) : std::nullopt;
}

Result<ModelSource> SourceFinder::find(const ServedModel& model) {
  if (model.name.empty()) {
    return refuse(base::concat("the model of source ", base::quoted(model.source), " has no name"));
  }
  auto out = find_model(model);
  if (!out.ok()) return out.error().with_context(model.name);
  if (const auto found = find_tokenizer(model, *out); !found.ok()) {
    return found.error().with_context(model.name);
  }
  return out;
}

Result<ModelSource> SourceFinder::find_model(const ServedModel& model) {
  if (is_random_source(model.source)) return make_random(model.source);
  if (const auto repository = hub_repository(model)) return find_in_cache(*repository);
  if (model.source.empty()) {
    return refuse(
        base::concat("no source is given, and no hub has a model of this name; expected "
                     "the model's folder or GGUF file: --model ",
                     model.name,
                     "=PATH"));
  }
  TINKER_TRY(auto path, existing("model", model.source));
  return read_model(std::move(path));
}

Result<ModelSource> SourceFinder::make_random(const std::string& source) {
  TINKER_TRY(const auto random, parse_random_source(source));
  if (!scratch_) {
    TINKER_TRY(scratch_, ScratchFolder::create("tinker-models"));
  }
  auto folder = scratch_->path() / folder_name(random);
  TINKER_TRY(write_random_tokenizer(folder, random));
  return ModelSource{.path = std::move(folder),
                     .random = random,
                     .scratch = scratch_,
                     .config = config_of(random)};
}

Result<ModelSource> SourceFinder::find_in_cache(const std::string& repository) const {
  TINKER_TRY(const auto cache, cache_folder());
  const auto config = tokenizer::HubCache(cache).find(config_of_repository(repository)).path;
  if (!config) {
    return refuse(
        base::concat("it is not in the hub's cache, ",
                     cache.string(),
                     ", and is not fetched (--offline, HF_HUB_OFFLINE, or fetch_models is "
                     "off); expected its folder or GGUF file (--model ",
                     repository,
                     "=PATH), or that it is there (huggingface-cli download ",
                     repository,
                     ")"));
  }
  TINKER_TRY(auto snapshot, existing("snapshot", fs::path(*config).parent_path()));
  auto out = read_model(std::move(snapshot));
  if (out.ok()) return out;
  return out.error().with_context(base::concat(
      "what the hub's cache has of it cannot be used (huggingface-cli download ", repository, ")"));
}

Result<void> SourceFinder::find_tokenizer(const ServedModel& model, ModelSource& out) {
  if (!model.tokenizer.empty()) {
    TINKER_TRY(out.tokenizer, existing("tokenizer", model.tokenizer));
    out.has_chosen_tokenizer = true;
    out.tokenizer_id = local_id_of(out.tokenizer);
  } else if (has_tokenizer_file(out.path)) {
    out.tokenizer = out.path;
    if (const auto repository = hub_repository(model)) out.tokenizer_id = hub_id_of(*repository);
    if (out.tokenizer_id.empty()) out.tokenizer_id = local_id_of(out.tokenizer);
  } else if (auto gguf = gguf_with_vocabulary(out.path)) {
    out.tokenizer = *std::move(gguf);
  } else if (auto cached = tokenizer_in_cache(model.name)) {
    out.tokenizer = std::move(cached->folder);
    out.tokenizer_id = std::move(cached->repository);
  }
  if (out.tokenizer_id.empty()) out.tokenizer_id = hub_id_of(model.name);
  // Last comes what only clients of this library read, such as a GGUF file.
  if (out.tokenizer_id.empty() && !out.tokenizer.empty()) out.tokenizer_id = uncut(out.tokenizer);
  return {};
}

std::optional<SourceFinder::CachedTokenizer> SourceFinder::tokenizer_in_cache(
    const std::string& name) const {
  const auto id = TokenizerId::of_model(name);
  const auto cache = cache_folder();
  if (!id.ok() || !cache.ok()) return std::nullopt;
  for (const auto* const file : {"tokenizer.json", "tiktoken.model"}) {
    const auto found = tokenizer::HubCache(*cache).find(
        {.repository = id->repository, .revision = id->revision, .name = file});
    if (found.path) {
      return CachedTokenizer{.folder = fs::path(*found.path).parent_path(),
                             .repository = id->repository};
    }
  }
  return std::nullopt;
}

Result<fs::path> SourceFinder::cache_folder() const {
  TINKER_TRY(const auto settings, tokenizer::HubSettings::resolve({.cache = hub_cache_}, {}));
  return settings.cache;
}

}  // namespace tinker::server
