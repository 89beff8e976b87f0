#include "server/model_loader.h"

#include <optional>
#include <utility>

#include "base/logging.h"
#include "tinker/future.h"

namespace tinker::server {

namespace {

Result<std::optional<Tokenizer>> load_tokenizer(const LoadJob& job) {
  const auto& source = job.source;
  if (source.tokenizer.empty()) {
    TINKER_LOG(job.logger, warn, job.name, " has no tokenizer: stop strings will be refused");
    return std::optional<Tokenizer>();
  }
  auto loaded = Tokenizer::load(source.tokenizer);
  if (loaded.ok()) return std::optional(*std::move(loaded));
  if (source.has_chosen_tokenizer) return std::move(loaded).error();
  TINKER_LOG(job.logger,
             warn,
             "the tokenizer of ",
             job.name,
             " cannot be read, so stop strings will be refused: ",
             loaded.error().to_string());
  return std::optional<Tokenizer>();
}

Result<std::shared_ptr<ResidentModel>> load(LoadJob& job) {
  const auto& source = job.source;
  job.leaving.clear();
  if (source.random) {
    TINKER_TRY(make_random_model(source.path, *source.random));
  }
  TINKER_TRY(auto tokenizer, load_tokenizer(job));
  if (tokenizer) job.engine.token_bytes = tokenizer->token_bytes();
  TINKER_TRY(auto engine, Engine::load(source.path, job.engine));
  LoadedModel model = {
      .engine = std::move(engine), .tokenizer = std::move(tokenizer), .bytes = job.weight_bytes};
  return std::make_shared<ResidentModel>(source.scratch, std::move(model), job.engine.cache_bytes);
}

}  // namespace

Result<std::shared_ptr<ResidentModel>> load_model(LoadJob job) {
  try {
    auto out = load(job);
    if (out.ok()) return out;
    return out.error().with_context("load " + job.name);
  } catch (...) {
    return detail::error_from_current_exception("loading a model");
  }
}

}  // namespace tinker::server
