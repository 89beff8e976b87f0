#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/runtime_core.h"
#include "tinker/hub.h"

namespace tinker::client {

/// The tokenizer of a model as the server names it (R16), from `hub`; without one, from that which
/// the environment names.
async::Task<Tokenizer> load_tokenizer(std::shared_ptr<async::RuntimeCore> runtime,
                                      std::optional<Hub> hub,
                                      std::optional<std::string> model,
                                      std::optional<std::string> tokenizer_id);

}  // namespace tinker::client
