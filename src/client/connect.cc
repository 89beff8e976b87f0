#include "client/connect.h"

#include <utility>

#include "base/log_level.h"
#include "transport/asio_transport.h"

namespace tinker::client {

using async::Task;

namespace {

JsonObject to_json(const StringMap& map) {
  JsonObject out;
  for (const auto& [name, value] : map) out.emplace_back(name, value);
  return out;
}

/// Sends nothing. Holds the service, which nobody else does yet.
Task<SamplingClient> restore(std::shared_ptr<const ServiceState> state,
                             session::SamplerHandle handle,
                             SamplingClientOptions options) {
  const auto& service = state->service.service();
  TINKER_CO_TRY(const auto holder,
                session::Holder::shadow(service->runtime(), state->options, handle));
  service->adopt(holder);
  TINKER_CO_TRY(auto core,
                make_sampling_core(holder, handle.sampling_session_id, std::move(options)));
  core->clone_id.reset();  // known with the first sample
  co_return SamplingClient(std::make_shared<const SamplingState>(
      SamplingState{.service = state->service, .core = std::move(core)}));
}

}  // namespace

Result<std::shared_ptr<const ServiceState>> connect(ServiceOptions options,
                                                    session::Environment environment) {
  TINKER_TRY(session::resolve_base_url(options.base_url, environment));
  if (const auto level = session::variable(environment, "TINKER_LOG")) {
    if (const auto known = base::parse_log_level(*level); !known) {
      return known.error().with_context("TINKER_LOG");
    }
  }
  Runtime runtime = options.runtime ? *std::move(options.runtime) : Runtime::start();
  if (!options.transport) {
    TINKER_TRY(options.transport,
               http::AsioTransport::create(runtime.core(), std::move(options.transport_options)));
  }
  session::HolderOptions holder = {.base_url = std::move(options.base_url),
                                   .api_key = std::move(options.api_key),
                                   .header_overrides = std::move(options.headers),
                                   .user_metadata = to_json(options.user_metadata),
                                   .project_id = std::move(options.project_id),
                                   .display_name = std::move(options.display_name),
                                   .environment = std::move(environment),
                                   .transport = std::move(options.transport),
                                   .start_timeout = options.start_timeout};
  if (options.circuit_breaker) {
    TINKER_TRY(holder.breakers,
               api::EndpointBreakers::create(*std::move(options.circuit_breaker), runtime.core()));
  }
  session::ServiceHandle service(std::move(runtime), holder);
  return std::make_shared<const ServiceState>(
      ServiceState{.service = std::move(service), .options = std::move(holder)});
}

Future<SamplingClient> restore_sampler(const std::string& text,
                                       SamplerHandleOptions options,
                                       session::Environment environment) {
  using Ready = Future<SamplingClient>;
  auto handle = session::decode_sampler_handle(text);
  if (!handle) return Ready::ready(std::move(handle).error());
  ServiceOptions service = {.base_url = handle->base_url,
                            .api_key = std::move(options.api_key),
                            .headers = std::move(options.headers),
                            .transport_options = std::move(options.transport_options),
                            .transport = std::move(options.transport),
                            .runtime = std::move(options.runtime),
                            .circuit_breaker = std::move(options.circuit_breaker)};
  auto state = connect(std::move(service), std::move(environment));
  if (!state) return Ready::ready(std::move(state).error());
  options.client.record_stability_info = handle->record_stability_info;
  const auto& core = (*state)->service.runtime().core();
  return core->spawn(core->scope(), restore(*state, *std::move(handle), std::move(options.client)));
}

}  // namespace tinker::client
