#include "support/load_server/load_server.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "async/asio_loop.h"
#include "base/strings.h"
#include "http/server.h"
#include "support/certificates.h"
#include "support/load_server/serve.h"
#include "tinker/check.h"

namespace tinker::load_server {

namespace {

/// An authority made on the spot, and what a server on this machine needs to be trusted by those
/// who trust it. Gone with this object.
class Certificates {
 public:
  Certificates() {
    folder_ = (std::filesystem::temp_directory_path() / "tinker-load-XXXXXX").string();
    TINKER_CHECK(::mkdtemp(folder_.data()) != nullptr);
    const auto authority = testing::make_authority("tinker test authority");
    const auto server =
        testing::make_identity({.alt_names = "DNS:localhost,IP:127.0.0.1,IP:::1"}, &authority);
    authority.write_certificate(ca_file());
    server.write_certificate(identity().certificate_file);
    server.write_key(identity().key_file);
  }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::string ca_file() const { return folder_ + "/ca.pem"; }
  [[nodiscard]] http::TlsIdentity identity() const {
    return {.certificate_file = folder_ + "/server.pem", .key_file = folder_ + "/key.pem"};
  }

 private:
  std::string folder_;
};

async::Task<> stop(std::shared_ptr<async::AsioLoop> loop, std::shared_ptr<http::Server> server) {
  auto drained = async::until(server->drain(std::chrono::milliseconds(0)));
  const auto end = co_await drained;
  loop->stop();
  co_return end;
}

}  // namespace

class LoadServer::Impl {
 public:
  explicit Impl(ServerOptions options) : service_(std::make_shared<Service>(std::move(options))) {
    // Clients are as slow as a test wants them to be.
    constexpr auto kPatience = std::chrono::hours(1);
    const http::ServerOptions served = {
        .limits = {.max_streams = service_->api.options().max_streams,
                   .times = {.idle = kPatience, .write = kPatience}},
        .max_connections = 100'000};
    const auto handler = [service = service_, this](http::ServerRequest request,
                                                    http::ResponseWriter writer) {
      service->api.connections().accepted = server_->accepted();
      service->api.connections().open = server_->connections();
      return serve(service, std::move(request), std::move(writer));
    };
    server_ = http::Server::create(loop_, handler, served);
    port_ = server_->listen({}, std::nullopt).value();
    tls_port_ = server_->listen({}, certificates_.identity()).value();
  }

  void run(int stop_fd) {
    std::thread watch([this, stop_fd] {
      pollfd poll = {.fd = stop_fd, .events = POLLIN, .revents = 0};
      ::poll(&poll, 1, -1);
      loop_->post([this] {
        async::run_detached<void>(
            loop_, std::make_shared<async::Scope>(), stop(loop_, server_), [](const auto&) {});
      });
    });
    loop_->run();
    watch.join();
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::uint16_t tls_port() const noexcept { return tls_port_; }
  [[nodiscard]] std::string ca_file() const { return certificates_.ca_file(); }

 private:
  Certificates certificates_;
  std::shared_ptr<Service> service_;
  std::shared_ptr<async::AsioLoop> loop_ = async::AsioLoop::create();
  std::shared_ptr<http::Server> server_;
  std::uint16_t port_ = 0;
  std::uint16_t tls_port_ = 0;
};

LoadServer::LoadServer() : LoadServer(ServerOptions()) {}

LoadServer::LoadServer(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

LoadServer::~LoadServer() {
  if (!thread_.joinable()) return;
  ::eventfd_write(wake_fd_, 1);
  thread_.join();
  ::close(wake_fd_);
}

void LoadServer::start() {
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { impl_->run(wake_fd_); });
}

void LoadServer::run(int stop_fd) {
  impl_->run(stop_fd);
}

std::uint16_t LoadServer::port() const noexcept {
  return impl_->port();
}
std::uint16_t LoadServer::tls_port() const noexcept {
  return impl_->tls_port();
}
std::string LoadServer::ca_file() const {
  return impl_->ca_file();
}
std::string LoadServer::url() const {
  return base::concat("http://127.0.0.1:", port());
}
std::string LoadServer::tls_url() const {
  return base::concat("https://127.0.0.1:", tls_port());
}

}  // namespace tinker::load_server
