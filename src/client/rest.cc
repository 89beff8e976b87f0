#include "client/rest.h"

#include "client/connect.h"
#include "session/rest_services.h"

namespace tinker::client {

using async::Task;

Result<std::shared_ptr<const RestState>> connect_rest(RestOptions options,
                                                      session::Environment environment) {
  // A service that is never used: it settles runtime, transport and address as they always are.
  TINKER_TRY(const auto service,
             connect({.base_url = std::move(options.base_url),
                      .api_key = std::move(options.api_key),
                      .transport_options = std::move(options.transport_options),
                      .transport = std::move(options.transport),
                      .runtime = std::move(options.runtime),
                      .circuit_breaker = std::move(options.circuit_breaker),
                      .start_timeout = options.start_timeout},
                     std::move(environment)));
  return std::make_shared<const RestState>(
      RestState{.runtime = service->service.runtime(), .options = service->options});
}

Task<std::shared_ptr<session::Holder>> rest_holder(RestState::Source source) {
  if (!source.service) {
    source.service = session::RestServices::find_or_make(source.runtime, std::move(source.options));
  }
  auto opening = source.service->rest_holder();
  co_return co_await std::move(opening);
}

}  // namespace tinker::client
