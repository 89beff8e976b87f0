#include "client/tokenizers.h"

#include <utility>

#include "tokenizer/hub_core.h"

namespace tinker::client {

async::Task<Tokenizer> load_tokenizer(std::shared_ptr<async::RuntimeCore> runtime,
                                      std::optional<Hub> hub,
                                      std::optional<std::string> model,
                                      std::optional<std::string> tokenizer_id) {
  if (!model) {
    co_return Error{.code = ErrorCode::invalid_response,
                    .message = "the server does not say which model it is: expected model_name"};
  }
  // A server on this machine may name a folder or file of its own.
  if (tokenizer_id && tokenizer_id->starts_with('/')) {
    auto loaded = runtime->offload([path = *tokenizer_id] { return Tokenizer::load(path); });
    auto wait = async::until(std::move(loaded));
    co_return co_await wait;
  }
  TINKER_CO_TRY(auto id, TokenizerId::of_model(*model, tokenizer_id));
  if (hub) {
    auto wait = async::until(hub->tokenizer(std::move(id)));
    co_return co_await wait;
  }
  TINKER_CO_TRY(const auto core, tokenizer::HubCore::shared(runtime));
  auto finding = core->tokenizer(std::move(id));
  co_return co_await std::move(finding);
}

}  // namespace tinker::client
