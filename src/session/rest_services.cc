#include "session/rest_services.h"

namespace tinker::session {

std::shared_ptr<Service> RestServices::find_or_make(
    const std::shared_ptr<async::RuntimeCore>& runtime, HolderOptions options) {
  const auto table = runtime->shared<RestServices>([] { return std::make_shared<RestServices>(); });
  std::pair key(options.base_url, options.api_key ? options.api_key->expose() : std::string());
  auto& service = table->services_[std::move(key)];
  if (!service) {
    service = std::make_shared<Service>(runtime, std::move(options));
    service->scope()->attach(runtime->scope());
  }
  return service;
}

}  // namespace tinker::session
