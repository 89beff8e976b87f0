#include "server/model_fetch.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "async/task.h"
#include "base/strings.h"
#include "engine/model_config.h"
#include "engine/model_files.h"
#include "formats/mapped_file.h"
#include "server/model_source.h"
#include "tinker/future.h"
#include "tinker/runtime.h"
#include "tokenizer/hub_core.h"

namespace tinker::server {

namespace fs = std::filesystem;
using async::Task;
using tokenizer::HubCore;
using tokenizer::HubListing;
using tokenizer::HubPath;

namespace {

constexpr const char* kRevision = "main";
constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
/// What engine, tokenizer and the Python tools read beside the weights.
constexpr std::array<const char*, 12> kSmallFiles = {"added_tokens.json",
                                                     "chat_template.jinja",
                                                     "chat_template.json",
                                                     "config.json",
                                                     "generation_config.json",
                                                     "merges.txt",
                                                     "special_tokens_map.json",
                                                     "tiktoken.model",
                                                     "tokenizer.json",
                                                     "tokenizer.model",
                                                     "tokenizer_config.json",
                                                     "vocab.json"};

Error refuse(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

Result<void> check_config(const fs::path& path) {
  TINKER_TRY(const auto file, formats::MappedFile::open(path));
  const auto config = engine::read_model_config(file.bytes());
  if (config.ok()) return {};
  return config.error().with_context(kConfig);
}

Result<void> check_listing(const std::string& repository, const HubListing& listing) {
  const auto& files = listing.files;
  const bool has_weights = files.contains(kWeights) || files.contains(kIndex);
  if (has_weights && files.contains(kConfig)) return {};
  const auto gguf = std::ranges::find_if(
      files, [](const auto& file) { return std::string_view(file.first).ends_with(".gguf"); });
  if (gguf != files.end()) {
    return refuse(
        base::concat("the hub has it as GGUF only: fetch one of its files "
                     "(huggingface-cli download ",
                     repository,
                     " ",
                     gguf->first,
                     ") and serve that (--model NAME=PATH)"));
  }
  return refuse(base::concat("expected a repository with ",
                             kConfig,
                             " and ",
                             kWeights,
                             " or ",
                             kIndex,
                             "; found no ",
                             files.contains(kConfig) ? kWeights : kConfig));
}

/// One model on its way.
struct Fetch {
  std::shared_ptr<HubCore> core;
  std::string repository;
  std::function<void(const FetchProgress&)> on_fetch;
  HubListing listing = {};
  std::uint64_t total_bytes = 0;
  std::uint64_t done_bytes = 0;  // of files that are here

  [[nodiscard]] HubPath path_of(std::string name) const {
    return {.repository = repository, .revision = listing.commit, .name = std::move(name)};
  }
  [[nodiscard]] std::uint64_t size_of(const std::string& name) const {
    const auto found = listing.files.find(name);
    return found == listing.files.end() ? 0 : found->second;
  }
  [[nodiscard]] Result<void> tell(std::uint64_t bytes) const {
    if (!on_fetch || total_bytes == 0) return {};
    try {
      on_fetch({.model = repository, .bytes = bytes, .total_bytes = total_bytes});
      return {};
    } catch (...) {
      Error error = detail::error_from_current_exception("on_fetch threw");
      error.code = ErrorCode::internal;
      return error;
    }
  }
};

/// Where a file is in the cache, after it came.
Task<std::string> bring(std::shared_ptr<Fetch> fetch, std::string name) {
  const auto tell = [fetch](std::uint64_t bytes_of_file) -> Result<void> {
    const auto bytes = fetch->done_bytes + bytes_of_file;
    if (bytes >= fetch->total_bytes) return {};  // all of it is there when it is checked
    return fetch->tell(bytes);
  };
  auto finding = fetch->core->file(fetch->path_of(name), tell);
  TINKER_CO_TRY(auto path, co_await std::move(finding));
  fetch->done_bytes += fetch->size_of(name);
  TINKER_CO_TRY(fetch->tell(fetch->done_bytes));
  co_return std::move(path);
}

/// Fails where the disk has no room for what has still to come.
Result<void> check_room(const Fetch& fetch,
                        const fs::path& folder,
                        const std::vector<std::string>& names) {
  const auto& cache = fetch.core->cache();
  std::uint64_t missing = 0;
  for (const auto& name : names) {
    if (!cache.find(fetch.path_of(name)).path) missing += fetch.size_of(name);
  }
  missing -= std::min(missing, cache.incomplete_bytes(fetch.repository));
  std::error_code error;
  const auto space = fs::space(folder, error);
  if (error || space.available >= missing) return {};
  return Error{.code = ErrorCode::io_error,
               .message = base::concat("the disk of ",
                                       folder.string(),
                                       " has no room: expected ",
                                       missing,
                                       " free bytes, found ",
                                       space.available)};
}

/// The files that the model is, small ones first. The index, if there is one, has come.
Task<std::vector<std::string>> names_of(std::shared_ptr<Fetch> fetch) {
  std::vector<std::string> out;
  std::ranges::copy_if(kSmallFiles, std::back_inserter(out), [&fetch](const char* name) {
    return fetch->listing.files.contains(name);
  });
  if (fetch->listing.files.contains(kWeights)) {
    out.emplace_back(kWeights);
    co_return out;
  }
  auto bringing = bring(fetch, kIndex);
  TINKER_CO_TRY(const auto index, co_await std::move(bringing));
  TINKER_CO_TRY(const auto weights, engine::files_in_index(index));
  out.insert(out.end(), weights.begin(), weights.end());
  co_return out;
}

Task<> run(std::shared_ptr<Fetch> fetch) {
  auto listing = fetch->core->list(fetch->repository, kRevision);
  TINKER_CO_TRY(fetch->listing, co_await std::move(listing));
  TINKER_CO_TRY(check_listing(fetch->repository, fetch->listing));
  auto bringing = bring(fetch, kConfig);
  TINKER_CO_TRY(const auto config, co_await std::move(bringing));
  TINKER_CO_TRY(check_config(config));
  auto naming = names_of(fetch);
  TINKER_CO_TRY(const auto names, co_await std::move(naming));
  TINKER_CO_TRY(check_room(*fetch, fs::path(config).parent_path(), names));
  fetch->done_bytes = 0;
  for (const auto& name : names) fetch->total_bytes += fetch->size_of(name);
  for (const auto& name : names) {
    auto next = bring(fetch, name);
    TINKER_CO_TRY(co_await std::move(next));
  }
  auto setting = fetch->core->set_revision(
      {.repository = fetch->repository, .revision = kRevision, .name = kConfig},
      fetch->listing.commit);
  co_return co_await std::move(setting);
}

/// The hub models that the cache does not have completely. Fails for a model in the cache that the
/// engine cannot run.
Result<std::vector<std::string>> missing_of(const LocalServerOptions& options,
                                            const tokenizer::HubSettings& settings) {
  const SourceFinder finder(settings.cache);
  std::vector<std::string> out;
  for (const auto& model : options.models) {
    const auto repository = hub_repository(model);
    if (!repository || finder.find_in_cache(*repository).ok()) continue;
    const auto config =
        tokenizer::HubCache(settings.cache)
            .find({.repository = *repository, .revision = kRevision, .name = kConfig});
    if (config.path) {
      const auto checked = check_config(*config.path);
      if (!checked.ok()) return checked.error().with_context("model " + *repository);
    }
    if (std::ranges::find(out, *repository) == out.end()) out.push_back(*repository);
  }
  return out;
}

}  // namespace

Result<void> fetch_models(const LocalServerOptions& options) {
  const auto is_of_hub = [](const ServedModel& model) { return hub_repository(model).has_value(); };
  if (std::ranges::none_of(options.models, is_of_hub)) return {};  // who has no cache needs none
  TINKER_TRY(const auto settings, tokenizer::HubSettings::resolve(options.hub, {}));
  if (settings.is_offline) return {};  // what the cache lacks is refused when it is looked for
  TINKER_TRY(const auto missing, missing_of(options, settings));
  if (missing.empty()) return {};
  const Runtime runtime =
      options.hub.runtime ? *options.hub.runtime : Runtime::start({.logger = options.logger});
  TINKER_TRY(const auto core, HubCore::open(runtime.core(), options.hub));
  for (const auto& repository : missing) {
    auto fetch = std::make_shared<Fetch>(
        Fetch{.core = core, .repository = repository, .on_fetch = options.on_fetch});
    auto fetching = runtime.core()->spawn(runtime.core()->scope(), run(std::move(fetch)));
    if (auto fetched = std::move(fetching).get(); !fetched.ok()) {
      return std::move(fetched).error().with_context(
          base::concat("model ", repository, " from ", settings.endpoint));
    }
  }
  return {};
}

}  // namespace tinker::server
