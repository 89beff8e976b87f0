#include "tinker/local_server.h"

#include <utility>

#include "server/host.h"

namespace tinker {

Result<LocalServer> LocalServer::start(LocalServerOptions options) {
  TINKER_TRY(auto host, server::Host::start(std::move(options)));
  return LocalServer(std::move(host));
}

const std::string& LocalServer::base_url() const noexcept {
  return host_->base_url();
}
std::uint16_t LocalServer::port() const noexcept {
  return host_->port();
}
const std::filesystem::path& LocalServer::data_dir() const noexcept {
  return host_->data_dir();
}
Result<void> LocalServer::stop(std::chrono::nanoseconds limit) const {
  return host_->stop(limit);
}
Result<void> LocalServer::reload_certificates() const {
  return host_->reload_certificates();
}

}  // namespace tinker
