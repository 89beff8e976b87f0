#include "server/imported_adapters.h"

#include <fstream>
#include <system_error>
#include <utility>

#include "base/relative_path.h"
#include "base/strings.h"
#include "engine/checkpoint.h"
#include "formats/mapped_file.h"
#include "server/errors.h"
#include "server/store.h"
#include "wire/json.h"

namespace tinker::server {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kRun = "imported";
constexpr std::string_view kConfig = "adapter_config.json";
constexpr std::string_view kWeights = "adapter_model.safetensors";
constexpr std::string_view kComplete = "checkpoint_complete";

/// A folder in `scratch` with links to the files of `adapter`.
Result<fs::path> link_files(const ServedAdapter& adapter, const fs::path& scratch) {
  const fs::path out = scratch / adapter.name;
  std::error_code error;
  bool is_made = fs::create_directory(out, error);
  for (const auto name : {kConfig, kWeights}) {
    const fs::path given = adapter.folder / name;
    const fs::path file = fs::canonical(given, error);
    if (error) {
      return bad_request(
          base::concat(base::quoted(given.string()), " cannot be read: ", error.message()));
    }
    fs::create_symlink(file, out / name, error);
    is_made = is_made && !error;
  }
  const std::ofstream complete(out / kComplete);
  if (is_made && complete) return out;
  return Error{.code = ErrorCode::io_error,
               .message = base::concat("cannot write to ", out.string())};
}

/// The name of the base model in PEFT's configuration; empty where there is none.
Result<std::string> base_model_in(const fs::path& folder) {
  TINKER_TRY(const auto file, formats::MappedFile::open(folder / kConfig));
  auto config = wire::decode_json<Json>(file.bytes());
  if (!config.ok()) return config.error().with_context(kConfig);
  const Json* const name = config->find("base_model_name_or_path");
  const auto* const text = name != nullptr ? name->get_if<std::string>() : nullptr;
  return text != nullptr ? *text : std::string();
}

/// The served model that `wanted` names, else the only one.
Result<std::string> base_model_of(const std::string& wanted, const ModelRegistry& models) {
  std::string names;
  const auto served = models.capabilities();
  for (const auto& model : served) {
    const std::string name = model.model_name.value_or("");
    TINKER_TRY(const auto facts, models.facts(name));
    if (!wanted.empty() && (name == wanted || facts.tokenizer_id == wanted)) return name;
    names += base::concat(names.empty() ? "" : ", ", name);
  }
  if (served.size() == 1) return served.front().model_name.value_or("");
  return bad_request(base::concat(
      kConfig, ": base_model_name_or_path is ", base::quoted(wanted), ", expected one of ", names));
}

Result<CheckpointRecord> read_one(const ServedAdapter& adapter,
                                  const ModelRegistry& models,
                                  const fs::path& scratch) {
  TINKER_TRY(Store::check_name(adapter.name));
  TINKER_TRY(const auto folder, link_files(adapter, scratch));
  TINKER_TRY(const auto wanted, base_model_in(folder));
  TINKER_TRY(const auto base_model, base_model_of(wanted, models));
  TINKER_TRY(const auto* const config, models.config(base_model));
  TINKER_TRY(const auto checkpoint,
             engine::load_checkpoint(folder, *config, CheckpointParts::weights));
  const auto& shape = checkpoint.layout->config();
  return CheckpointRecord{.run_id = std::string(kRun),
                          .kind = CheckpointType::sampler,
                          .name = adapter.name,
                          .base_model = base_model,
                          .lora = {.rank = static_cast<std::int64_t>(shape.rank),
                                   .train_unembed = shape.train_unembed,
                                   .train_mlp = shape.train_mlp,
                                   .train_attn = shape.train_attn},
                          .is_public = true,
                          .folder = folder.string()};
}

}  // namespace

Result<ImportedAdapters> ImportedAdapters::read(const std::vector<ServedAdapter>& adapters,
                                                const ModelRegistry& models) {
  ImportedAdapters out;
  if (adapters.empty()) return out;
  TINKER_TRY(out.scratch_, ScratchFolder::create("tinker-adapters"));
  for (const auto& adapter : adapters) {
    if (out.by_name_.contains(adapter.name)) {
      return bad_request(base::concat("two adapters are named ", base::quoted(adapter.name)));
    }
    auto record = read_one(adapter, models, out.scratch_->path());
    if (!record.ok()) {
      return record.error().with_context(base::concat("adapter ", base::quoted(adapter.name)));
    }
    out.by_name_.emplace(adapter.name, *std::move(record));
  }
  return out;
}

const CheckpointRecord* ImportedAdapters::find(const TinkerPath& path) const {
  if (path.training_run_id != kRun || path.kind != CheckpointType::sampler) return nullptr;
  const auto found = by_name_.find(path.name);
  return found != by_name_.end() ? &found->second : nullptr;
}

}  // namespace tinker::server
