#include "tinker/hub.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/relative_path.h"
#include "base/strings.h"
#include "tokenizer/hub_core.h"

namespace tinker {

using async::Task;
using tokenizer::HubCore;
using tokenizer::HubPath;

namespace {

constexpr std::string_view kLlama3 = "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer";

struct PinnedTokenizer {
  std::string_view name;
  std::string_view repository;
  std::string_view revision;
};

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
constexpr std::array<PinnedTokenizer, 5> kPinned = {{
    {"moonshotai/Kimi-K2-Thinking",
     "moonshotai/Kimi-K2-Thinking",
     "612681931a8c906ddb349f8ad0f582cb552189cd"},
    {"moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.5", "4d01dfe0332d63057c186e0b262165819efb6611"},
    {"moonshotai/Kimi-K2.5-Text-Only",
     "moonshotai/Kimi-K2.5",
     "4d01dfe0332d63057c186e0b262165819efb6611"},
    {"moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2.6", "b5aabbfb20227ed42becbf5541dbffd213942c58"},
    {"moonshotai/Kimi-K3", "moonshotai/Kimi-K3", "f831ab66814297da540d832a5235f8e904f29d06"},
}};
// NOLINTEND(modernize-use-designated-initializers)

std::string_view before_colon(std::string_view text) {
  return text.substr(0, text.find(':'));
}

/// R16.3.
std::string_view tokenizer_of(std::string_view model) {
  if (model.starts_with("meta-llama/Llama-3")) return kLlama3;
  if (std::ranges::count(model, '/') == 2) return model.substr(0, model.rfind('/'));
  return model;
}

/// The core stays alive as long as they run.
Task<Tokenizer> find_tokenizer(std::shared_ptr<HubCore> core, TokenizerId id) {
  auto finding = core->tokenizer(id);
  auto found = co_await std::move(finding);
  if (found.ok()) co_return found;
  co_return std::move(found).error().with_context(base::concat("tokenizer of ", id.repository));
}

Task<std::filesystem::path> find_file(std::shared_ptr<HubCore> core, HubPath path) {
  auto finding = core->file(std::move(path));
  TINKER_CO_TRY(auto found, co_await std::move(finding));
  co_return std::filesystem::path(std::move(found));
}

}  // namespace

struct Hub::State {
  Runtime runtime;
  std::shared_ptr<HubCore> core;
};

Result<TokenizerId> TokenizerId::of_model(std::string_view model,
                                          std::optional<std::string_view> tokenizer) {
  const std::string_view name =
      tokenizer ? before_colon(*tokenizer) : tokenizer_of(before_colon(model));
  if (name.starts_with("TML/") || name.starts_with("thinkingmachines/")) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("the tokenizer ",
                                         base::quoted(name),
                                         " is on no hub: expected a model whose tokenizer is "
                                         "public, or load it from a file with Tokenizer::load")};
  }
  const auto* const pinned = std::ranges::find(kPinned, name, &PinnedTokenizer::name);
  TokenizerId out = {.repository = std::string(name)};
  if (pinned != kPinned.end()) {
    out = {.repository = std::string(pinned->repository),
           .revision = std::string(pinned->revision)};
  }
  TINKER_TRY(tokenizer::check(
      {.repository = out.repository, .revision = out.revision, .name = "tokenizer.json"}));
  return out;
}

Result<Hub> Hub::open() {
  return open(HubOptions());
}

Result<Hub> Hub::open(HubOptions options) {
  Runtime runtime = options.runtime ? *std::move(options.runtime) : Runtime::start();
  TINKER_TRY(auto core, HubCore::open(runtime.core(), std::move(options)));
  return Hub(
      std::make_shared<const State>(State{.runtime = std::move(runtime), .core = std::move(core)}));
}

Future<std::filesystem::path> Hub::file(std::string repository,
                                        std::string name,
                                        std::string revision) const {
  HubPath path = {.repository = std::move(repository),
                  .revision = std::move(revision),
                  .name = std::move(name)};
  const auto& runtime = state_->runtime.core();
  return runtime->spawn(runtime->scope(), find_file(state_->core, std::move(path)));
}

Future<Tokenizer> Hub::tokenizer(std::string_view model) const {
  auto id = TokenizerId::of_model(model);
  if (!id.ok()) return Future<Tokenizer>::ready(std::move(id).error());
  return tokenizer(*std::move(id));
}

Future<Tokenizer> Hub::tokenizer(TokenizerId id) const {
  const auto& runtime = state_->runtime.core();
  return runtime->spawn(runtime->scope(), find_tokenizer(state_->core, std::move(id)));
}

}  // namespace tinker
