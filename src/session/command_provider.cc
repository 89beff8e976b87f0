#include "session/command_provider.h"

#include <algorithm>

#include "base/strings.h"
#include "http/ascii.h"

namespace tinker::session {

namespace {

Error unusable(std::string_view what) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("the command of TINKER_CREDENTIAL_CMD ", what)};
}

}  // namespace

Result<Secret> credential_in(std::string_view output) {
  constexpr std::string_view kSpace = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
  const auto first = output.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return unusable("printed no credential");
  const auto text = output.substr(first, output.find_last_not_of(kSpace) + 1 - first);
  if (std::ranges::any_of(text, http::ascii::is_control)) {
    return unusable("printed more than one line, or a control character");
  }
  return Secret(std::string(text));
}

CommandProvider::CommandProvider(const std::shared_ptr<async::RuntimeCore>& core, Secret command)
    : loop_(core->loop()),
      runner_(core->shared<CommandRunner>([] { return std::make_shared<CommandRunner>(); })),
      command_(std::move(command)) {}

async::Task<Secret> CommandProvider::token() {
  auto future = runner_->run(command_, loop_);
  auto wait = async::until(std::move(future));
  const auto output = co_await wait;
  if (!output) co_return output.error().with_context("TINKER_CREDENTIAL_CMD");
  co_return credential_in(*output);
}

}  // namespace tinker::session
