#pragma once

#include <memory>
#include <string>

#include "api/token_provider.h"
#include "async/runtime_core.h"
#include "session/command_runner.h"
#include "tinker/secret.h"

namespace tinker::session {

/// Runs a command of the shell for every token it is asked for (R3.3). All providers of a runtime
/// share one `CommandRunner`.
class CommandProvider final : public api::TokenProvider {
 public:
  CommandProvider(const std::shared_ptr<async::RuntimeCore>& core, Secret command);

  /// What the command prints, without space around it. `invalid_argument` when that is nothing, or
  /// cannot be sent in a header.
  async::Task<Secret> token() override;

 private:
  std::shared_ptr<async::EventLoop> loop_;
  std::shared_ptr<CommandRunner> runner_;
  Secret command_;
};

/// The credential in what a command has printed.
Result<Secret> credential_in(std::string_view output);

}  // namespace tinker::session
