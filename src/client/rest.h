#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/report.h"
#include "client/requests.h"
#include "client/state.h"
#include "tinker/rest_client.h"
#include "tinker/version.h"
#include "wire/query.h"

namespace tinker::client {

/// What REST and admin clients share.
struct RestState {
  Runtime runtime;
  session::HolderOptions options;
  /// Of the service client it came from. Without one, clients of the runtime share a service.
  std::optional<session::ServiceHandle> owner = {};

  /// What operations hold: nothing that keeps a service or a runtime alive.
  struct Source {
    std::shared_ptr<async::RuntimeCore> runtime;
    session::HolderOptions options;
    std::shared_ptr<session::Service> service = {};
  };
  [[nodiscard]] Source source() const {
    return {.runtime = runtime.core(),
            .options = options,
            .service = owner ? owner->service() : nullptr};
  }
};

/// The state of a client that was made alone. `environment` is for tests.
Result<std::shared_ptr<const RestState>> connect_rest(RestOptions options,
                                                      session::Environment environment);

/// The holder without a session that the calls go through.
async::Task<std::shared_ptr<session::Holder>> rest_holder(RestState::Source source);

/// One call: `method` is the name of the public function (PROTOCOL 3).
struct RestCall {
  std::string method = {};
  api::Call call = {};
};

template <typename Answer>
async::Task<Answer> call_rest(std::shared_ptr<session::SessionCore> session, RestCall rest) {
  rest.call.headers.add("x-sdk-version", protocol_version());
  rest.call.headers.add("x-sdk-method", rest.method);
  if constexpr (std::is_void_v<Answer>) {
    auto rounds = session::execute_with_retries<http::Response>(
        session,
        std::move(rest.method),
        [session, call = std::move(rest.call)](const std::shared_ptr<session::Watch>& watch) {
          return session->api->call(session::watched(call, watch), session->tokens);
        });
    TINKER_CO_TRY(co_await std::move(rounds));
    co_return Result<void>();
  } else {
    auto calling = call_with_retries<Answer>(session, std::move(rest.method), std::move(rest.call));
    co_return co_await std::move(calling);
  }
}

template <typename Answer>
async::Task<Answer> run_rest(RestState::Source source, RestCall rest) {
  auto opening = rest_holder(std::move(source));
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  std::string method = rest.method;
  auto calling = call_rest<Answer>(holder->core(), std::move(rest));
  auto running = reported(holder->core(), std::move(method), std::move(calling));
  co_return co_await std::move(running);
}

template <typename T>
Future<T> start(const RestState& state, const CallOptions& options, async::Task<T> task) {
  if (state.owner) return start(*state.owner, options, std::move(task));
  const auto& core = state.runtime.core();
  return core->spawn(
      core->scope(),
      std::move(task),
      async::SpawnOptions{.deadline = options.deadline, .stop_token = options.stop_token});
}

template <typename Answer>
Future<Answer> start_rest(const RestState& state, const CallOptions& options, RestCall rest) {
  rest.call.trace = options.trace;
  return start(state, options, run_rest<Answer>(state.source(), std::move(rest)));
}

/// A GET whose parameters travel as a query.
template <typename Answer, typename Query>
Future<Answer> start_get(const RestState& state,
                         const CallOptions& options,
                         RestCall rest,
                         const Query& query) {
  auto text = wire::encode_query(query);
  if (!text) return Future<Answer>::ready(std::move(text).error());
  rest.call.method = http::Method::get;
  rest.call.query = *std::move(text);
  return start_rest<Answer>(state, options, std::move(rest));
}

}  // namespace tinker::client
