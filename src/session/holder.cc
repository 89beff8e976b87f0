#include "session/holder.h"

#include <algorithm>

#include "async/child_scope.h"
#include "base/logging.h"
#include "session/backoff.h"
#include "session/canceller.h"
#include "session/credentials.h"
#include "session/heartbeat.h"
#include "session/json_call.h"
#include "session/jwt_provider.h"
#include "session/retries.h"
#include "session/retry_handler.h"
#include "session/start_limit.h"
#include "session/watch.h"
#include "tinker/version.h"

namespace tinker::session {

using async::Task;

namespace {

/// Cloudflare Access from the environment, under the user's own headers (R1.10).
http::Headers default_headers(const HolderOptions& options) {
  http::Headers headers;
  if (auto id = variable(options.environment, "CLOUDFLARE_ACCESS_CLIENT_ID")) {
    headers.set("CF-Access-Client-Id", *id);
  }
  if (auto secret = variable(options.environment, "CLOUDFLARE_ACCESS_CLIENT_SECRET")) {
    headers.set("CF-Access-Client-Secret", *secret);
  }
  for (const auto& header : options.header_overrides) headers.set(header.name, header.value);
  return headers;
}

/// `TINKER_TAGS` split at commas, each tag once; an empty variable is one empty tag (PROTOCOL 9.4).
std::vector<std::string> session_tags(const Environment& environment) {
  const auto text = environment ? environment("TINKER_TAGS") : process_environment()("TINKER_TAGS");
  std::vector<std::string> tags;
  if (!text) return tags;
  for (std::size_t begin = 0; begin <= text->size();) {
    const std::size_t end = std::min(text->find(',', begin), text->size());
    auto tag = text->substr(begin, end - begin);
    if (std::ranges::find(tags, tag) == tags.end()) tags.push_back(std::move(tag));
    begin = end + 1;
  }
  return tags;
}

CreateSessionRequest session_request(const HolderOptions& options) {
  CreateSessionRequest request = {.tags = session_tags(options.environment),
                                  .user_metadata = options.user_metadata,
                                  .sdk_version = std::string(protocol_version()),
                                  .project_id = options.project_id,
                                  .display_name = options.display_name};
  if (!request.project_id || request.project_id->empty()) {
    request.project_id = variable(options.environment, "TINKER_PROJECT_ID");  // R1.11
  }
  return request;
}

/// `client/config`, with the raw credential and a connection of its own (PROTOCOL 9.1).
Task<ClientConfigResponse> fetch_config(std::shared_ptr<SessionCore> core,
                                        std::shared_ptr<api::TokenProvider> tokens,
                                        http::Body body,
                                        std::shared_ptr<Watch> watch) {
  api::Call request = {.path = "/api/v1/client/config",
                       .body = std::move(body),
                       .pool = api::PoolKind::config,
                       .is_guarded = false,
                       .observer = watch};
  auto call = core->api->call(std::move(request), std::move(tokens));
  TINKER_CO_TRY(const auto response, co_await std::move(call));
  co_return read_answer<ClientConfigResponse>(response, "/api/v1/client/config", *core->api);
}

void log_messages(const SessionCore& core, const CreateSessionResponse& answer) {  // R4.1
  if (answer.info_message && !answer.info_message->empty()) {
    TINKER_LOG(core.logger(), info, *answer.info_message);
  }
  if (answer.warning_message && !answer.warning_message->empty()) {
    TINKER_LOG(core.logger(), warn, *answer.warning_message);
  }
  if (answer.error_message && !answer.error_message->empty()) {
    TINKER_LOG(core.logger(), error, *answer.error_message);
  }
}

Task<> create_session(std::shared_ptr<SessionCore> core,
                      CreateSessionRequest request,
                      std::shared_ptr<Watch> watch) {
  TINKER_CO_TRY(auto body, json_body(request));
  api::Call call = {.path = "/api/v1/create_session",
                    .body = std::move(body),
                    .pool = api::PoolKind::session,
                    .observer = watch};
  auto creating = call_json<CreateSessionResponse>(core, std::move(call));
  TINKER_CO_TRY(const auto answer, co_await std::move(creating));
  core->session_id = answer.session_id;
  core->api->set_session_id(answer.session_id);
  log_messages(*core, answer);
  TINKER_LOG(core->logger(), info, "session ", core->session_id, " started");
  co_return Result<void>();
}

Task<> post_finish(std::shared_ptr<SessionCore> core,
                   http::Body body,
                   std::shared_ptr<Watch> watch) {
  api::Call request = {.path = base::concat("/api/v1/sessions/", core->session_id, "/finish"),
                       .endpoint = "/api/v1/sessions/{id}/finish",
                       .body = std::move(body),
                       .pool = api::PoolKind::train,
                       .is_guarded = false,
                       .observer = watch};
  auto call = core->api->call(std::move(request), core->tokens);
  TINKER_CO_TRY(co_await std::move(call));
  co_return Result<void>();
}

/// Says what a server without the first of all endpoints may mean.
Error with_hint(Error error, std::string_view base_url) {
  if (error.http_status != 404) return error;
  error.message += base_url.ends_with("/api/v1")
                       ? "; base_url ends in /api/v1, which is added to it: leave that out"
                       : "; is base_url the address of a Tinker server?";
  return error;
}

/// The text that tells one account from another.
Secret identity_of(const CredentialSource& source) {
  if (const auto* key = std::get_if<Secret>(&source)) return *key;
  return std::get<CredentialCommand>(source).text;
}

}  // namespace

Holder::~Holder() = default;

Task<std::shared_ptr<Holder>> Holder::open(std::shared_ptr<async::RuntimeCore> runtime,
                                           HolderOptions options,
                                           Kind kind) {
  const std::shared_ptr<Holder> holder(new Holder());
  const auto core = holder->core_;
  core->runtime = runtime;
  core->is_single_attempt = options.is_single_attempt;
  TINKER_CO_TRY(const auto base_url, resolve_base_url(options.base_url, options.environment));
  core->api = std::make_shared<api::ApiClient>(
      runtime,
      options.transport,
      api::ApiClientOptions{.base_url = base_url,
                            .default_headers = default_headers(options),
                            .is_single_attempt = options.is_single_attempt,
                            .breakers = options.breakers});
  core->scope->attach(runtime->scope());
  holder->telemetry_scope_->attach(runtime->scope());

  auto starting = holder->start_up_in_time(std::move(options), kind);
  const auto started = co_await std::move(starting);
  if (!started.ok()) {
    holder->end(started.error());
    co_return started.error();
  }
  co_return holder;
}

Task<> Holder::start_up_in_time(HolderOptions options, Kind kind) {
  const auto self = shared_from_this();
  const auto watch = std::make_shared<Watch>(core_->runtime, "start-up", "");
  const auto timeout = options.start_timeout;
  if (!timeout) {
    auto starting = start_up(std::move(options), kind, watch);
    co_return co_await std::move(starting);
  }
  const StartLimit limit(core_, *timeout);
  watch->set_start_limit(
      Watch::Limit{.until = async::time_after(core_->now(), *timeout), .name = "start_timeout"});
  auto starting = async::in_child_scope(limit.scope(), start_up(std::move(options), kind, watch));
  co_return co_await std::move(starting);
}

Task<> Holder::start_up(HolderOptions options, Kind kind, std::shared_ptr<Watch> watch) {
  const auto self = shared_from_this();
  auto choosing = choose_tokens(options, watch);
  TINKER_CO_TRY(co_await std::move(choosing));
  watch->set_start_limit(std::nullopt);
  watch->recovered();

  auto dynamic = execute_with_retries<ClientDynamicConfigResponse>(
      core_,
      "fetch_dynamic_config",
      [core = core_](const std::shared_ptr<Watch>& observer) {
        return fetch_dynamic_config(core, observer);
      },
      watch);
  auto dynamic_config = co_await std::move(dynamic);
  if (dynamic_config.ok()) {
    core_->dynamic_config = *std::move(dynamic_config);
  } else if (dynamic_config.error().http_status != 404) {  // 404: a server too old to have it
    co_return dynamic_config.error();
  }

  if (kind == Kind::with_session) {
    watch->recovered();
    auto creating = create_session(core_, session_request(options), watch);
    TINKER_CO_TRY(co_await std::move(creating));
  }
  start_background(options.environment);
  co_return Result<void>();
}

Task<> Holder::choose_tokens(HolderOptions options, std::shared_ptr<Watch> watch) {
  const auto self = shared_from_this();
  const CredentialOptions credentials = {
      .api_key = options.api_key, .env = options.environment, .base_url = core_->api->base_url()};
  TINKER_CO_TRY(const auto source, select_credential(credentials, false));
  core_->api->protect(identity_of(source));
  core_->api->set_credential_source(name_of(source, credentials));
  raw_tokens_ = make_provider(core_->runtime, source);
  core_->backoff = shared_backoff(*core_->runtime, core_->api->base_url(), identity_of(source));

  TINKER_CO_TRY(const auto body,
                json_body(ClientConfigRequest{.sdk_version = std::string(protocol_version())}));
  auto fetching = execute_with_retries<ClientConfigResponse>(
      core_,
      "fetch_client_config",
      [core = core_, tokens = raw_tokens_, body](const std::shared_ptr<Watch>& observer) {
        return fetch_config(core, tokens, body, observer);
      },
      watch);
  auto config = co_await std::move(fetching);
  if (!config.ok()) co_return with_hint(std::move(config).error(), core_->api->base_url());
  core_->configure(*std::move(config));
  co_return use_config(credentials);
}

Result<void> Holder::use_config(const CredentialOptions& credentials) {
  if (!core_->config.pjwt_auth_enabled) {
    // Such a server takes plain keys only: a command cannot help (R3.17).
    TINKER_TRY(Secret key, select_api_key(credentials));
    core_->api->protect(key);
    core_->api->set_credential_source(name_of(key, credentials));
    core_->tokens = std::make_shared<ApiKeyProvider>(std::move(key));
    raw_tokens_ = core_->tokens;
    return {};
  }
  const bool use_command = core_->config.credential_default_source == "credential_cmd";
  TINKER_TRY(auto source, select_credential(credentials, use_command));
  core_->api->protect(identity_of(source));
  core_->api->set_credential_source(name_of(source, credentials));
  raw_tokens_ = make_provider(core_->runtime, std::move(source));
  jwt_ = std::make_shared<JwtProvider>(core_->runtime, core_->api, raw_tokens_, core_->scope);
  core_->tokens = jwt_;
  return {};
}

Result<std::shared_ptr<Holder>> Holder::shadow(std::shared_ptr<async::RuntimeCore> runtime,
                                               HolderOptions options,
                                               const SamplerHandle& handle) {
  const std::shared_ptr<Holder> holder(new Holder());
  const auto& core = holder->core_;
  core->runtime = runtime;
  TINKER_TRY(const auto base_url, resolve_base_url(handle.base_url, options.environment));
  core->api = std::make_shared<api::ApiClient>(
      runtime,
      options.transport,
      api::ApiClientOptions{.base_url = base_url,
                            .default_headers = default_headers(options),
                            .breakers = options.breakers});
  core->configure(handle.config);
  core->dynamic_config = handle.dynamic_config;
  core->session_id = handle.session_id;
  core->api->set_session_id(handle.session_id);
  const CredentialOptions credentials = {
      .api_key = options.api_key, .env = options.environment, .base_url = base_url};
  TINKER_TRY(const auto source, select_credential(credentials, false));
  core->backoff = shared_backoff(*runtime, base_url, identity_of(source));
  TINKER_TRY(holder->use_config(credentials));
  core->scope->attach(runtime->scope());
  holder->telemetry_scope_->attach(runtime->scope());
  holder->start_background(options.environment);
  return holder;
}

void Holder::start_background(const Environment& environment) {
  core_->retry_handlers = std::make_shared<RetryHandlers>(core_->runtime);
  const auto telemetry =
      environment ? environment("TINKER_TELEMETRY") : process_environment()("TINKER_TELEMETRY");
  core_->telemetry = std::make_shared<telemetry::Reporter>(
      core_->runtime,
      core_->api,
      core_->tokens,
      telemetry::ReporterOptions{
          .is_enabled = telemetry::is_enabled_by(telemetry ? telemetry->c_str() : nullptr),
          .session_id = core_->session_id});
  if (!core_->session_id.empty()) {
    canceller_ = std::make_shared<Canceller>(core_);
    const auto& runtime = core_->runtime;
    (void)runtime->spawn(core_->scope, heartbeat(core_));
    (void)runtime->spawn(core_->scope, refresh_dynamic_config(core_));
  }
  core_->telemetry->start(telemetry_scope_);
}

Task<Secret> Holder::identity_token() {
  const auto self = shared_from_this();
  auto asking = (jwt_ ? std::static_pointer_cast<api::TokenProvider>(jwt_) : raw_tokens_)->token();
  co_return co_await std::move(asking);
}

Task<> Holder::finish(SessionFinishReason reason,
                      std::optional<std::string> detail,
                      std::chrono::nanoseconds limit) {
  const auto self = shared_from_this();
  TINKER_CO_TRY(const auto body,
                json_body(FinishSessionRequest{.reason = reason, .detail = std::move(detail)}));
  auto finishing = execute_with_retries<void>(
      core_, "finish_session", [core = core_, body](const std::shared_ptr<Watch>& watch) {
        return post_finish(core, body, watch);
      });
  // Not below the holder's own scope, which close is about to cancel.
  auto bounded = core_->runtime->spawn(
      core_->runtime->scope(), std::move(finishing), async::SpawnOptions{.deadline = limit});
  auto wait = async::until(std::move(bounded));
  auto finished = co_await wait;
  if (!finished.ok()) co_return finished.error().with_context("finish the session");
  co_return Result<void>();
}

Task<> Holder::close(Error reason, std::chrono::nanoseconds drain_limit) {
  const auto self = shared_from_this();
  if (is_closed_) co_return Result<void>();
  is_closed_ = true;
  core_->scope->cancel(reason);
  if (core_->telemetry) {
    auto draining = core_->telemetry->drain(drain_limit);
    const auto drained = co_await std::move(draining);
    if (!drained.ok()) {
      TINKER_LOG(
          core_->logger(), warn, "telemetry could not be sent: ", drained.error().to_string());
    }
  }
  end(std::move(reason));
  co_return Result<void>();
}

void Holder::end(Error reason) {
  is_closed_ = true;
  core_->scope->cancel(reason);
  telemetry_scope_->cancel(std::move(reason));
  core_->api->close();
}

}  // namespace tinker::session
