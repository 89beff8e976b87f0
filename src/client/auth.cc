#include "client/auth.h"

#include <utility>

#include "client/rest.h"
#include "session/credentials.h"
#include "session/json_call.h"
#include "tinker/types/client_config.h"

namespace tinker {

using async::Task;

namespace client {

namespace {

Task<> ask(std::shared_ptr<session::Service> service) {
  auto opening = service->rest_holder();
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  api::Call call = {.method = http::Method::get, .path = "/api/v1/get_server_capabilities"};
  auto asking = session::call_json<GetServerCapabilitiesResponse>(holder->core(), std::move(call));
  TINKER_CO_TRY(co_await std::move(asking));
  co_return Result<void>();
}

/// Through a service of its own, so that nothing known from earlier stands in for an answer. Holds
/// the runtime, which nobody else may.
Task<> check(std::shared_ptr<const RestState> state) {
  const auto& runtime = state->runtime.core();
  session::HolderOptions options = state->options;
  options.is_single_attempt = true;
  auto service = std::make_shared<session::Service>(runtime, std::move(options));
  service->scope()->attach(runtime->scope());
  auto asking = ask(service);
  auto answer = co_await std::move(asking);
  service->abandon();
  service->scope()->detach();
  co_return answer;
}

}  // namespace

Future<void> check_accessible(RestOptions options, session::Environment environment) {
  auto state = connect_rest(std::move(options), std::move(environment));
  if (!state) return Future<void>::ready(std::move(state).error());
  const auto core = (*state)->runtime.core();
  return core->spawn(core->scope(), check(*std::move(state)));
}

}  // namespace client

namespace auth {

std::optional<Secret> get_tinker_token() {
  return session::configured_token({});
}

bool tinker_has_credentials() {
  return session::has_credentials({});
}

Future<void> check_tinker_accessible() {
  return check_tinker_accessible(RestOptions());
}

Future<void> check_tinker_accessible(RestOptions options) {
  return client::check_accessible(std::move(options), session::Environment());
}

}  // namespace auth
}  // namespace tinker
