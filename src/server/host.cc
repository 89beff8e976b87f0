#include "server/host.h"

#include <algorithm>
#include <future>
#include <limits>
#include <utility>

#include "base/strings.h"
#include "http/url.h"
#include "server/browser_check.h"
#include "server/check_options.h"
#include "server/data_folder.h"
#include "server/endpoints.h"
#include "server/errors.h"
#include "server/model_fetch.h"
#include "server/restore.h"

namespace tinker::server {

namespace {

// For polls to be told, and for clients to hear the last answers.
constexpr auto kLastAnswers = std::chrono::seconds(2);
// How often a server that is to stop looks whether all is done.
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kTurn = std::chrono::milliseconds(1);

http::ServerOptions http_options(const LocalServerLimits& limits) {
  http::ServerOptions out = {.max_connections = limits.connections};
  out.limits.request.head = {.max_bytes = limits.head_bytes, .max_fields = limits.head_fields};
  out.limits.request.max_target_bytes = limits.target_bytes;
  out.limits.max_body_bytes = limits.body_bytes;
  out.limits.max_streams = static_cast<std::uint32_t>(
      std::min<std::size_t>(limits.streams, std::numeric_limits<std::uint32_t>::max()));
  out.limits.times.head = limits.head_time;
  out.limits.times.body = limits.body_time;
  out.limits.times.idle = limits.idle_time;
  out.limits.times.write = limits.write_time;
  return out;
}

/// The short form becomes one entry more.
void spell_out(LocalServerOptions& options) {
  if (options.model.empty()) return;
  const bool is_random = options.model.starts_with("random:");
  const std::filesystem::path path = options.model;
  const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
  options.models.insert(options.models.begin(),
                        {.name = is_random ? "random" : name.string(), .source = options.model});
}

/// Stops when nothing runs any more, at the latest after `limit`.
async::Task<> wind_down(std::shared_ptr<Service> service,
                        std::shared_ptr<http::Server> http,
                        std::chrono::nanoseconds limit) {
  const Error reason = {.code = ErrorCode::closed, .message = "the server is shutting down"};
  service->begin_draining(reason);
  const auto end = async::time_after(service->loop()->now(), limit);
  // What waits for requests that did not come would wait in vain.
  while (service->futures.pending() > service->waiting_requests() && service->loop()->now() < end) {
    auto pause = async::sleep_for(kLook);
    TINKER_CO_TRY(co_await pause);
  }
  service->stop(reason);
  // What was cancelled runs to its end: it holds the store and the models.
  while (service->tasks() > 0 && service->loop()->now() < end + kLastAnswers) {
    auto turn = async::sleep_for(kTurn);
    TINKER_CO_TRY(co_await turn);
  }
  auto drained = async::until(http->drain(kLastAnswers));
  co_return co_await drained;
}

}  // namespace

Result<std::shared_ptr<Host>> Host::start(LocalServerOptions options) {
  TINKER_TRY(check_options(options));
  spell_out(options);
  if (options.fetch_models) {
    TINKER_TRY(fetch_models(options));
  }
  std::shared_ptr<Host> host(new Host());
  TINKER_TRY(host->open(options));
  host->service_->start();
  host->thread_ = std::thread([loop = host->loop_] {
    async::enter_library_thread("tinker-server");
    loop->run();
  });
  TINKER_TRY(host->go_on());
  TINKER_TRY(host->listen(options));
  return host;
}

// Before the first client comes, so that none sees half of it.
Result<void> Host::go_on() {
  if (!service_->journals) return {};
  std::promise<Result<void>> restored;
  loop_->post([service = service_, &restored] {
    auto task = restore_runs(service);
    service->spawn(service->scope(), std::move(task), [&restored](detail::Late<void> result) {
      restored.set_value(*std::move(result));
    });
  });
  return restored.get_future().get();
}

Result<void> Host::open(LocalServerOptions options) {
  // Tokens are of use only where keys tell callers apart; who wants them all the same says so.
  options.flags.emplace("pjwt_auth_enabled", options.keys.empty() ? "off" : "on");
  TINKER_TRY(auto flags, make_flags(options.flags));
  TINKER_TRY(auto store, Store::open(options.data_dir, Clock::system()));
  data_dir_ = store->folder();
  TINKER_TRY(auto access, Access::create(options.keys, store->secret()));
  TINKER_TRY(auto models,
             ModelRegistry::create(loop_,
                                   workers_,
                                   {.models = options.models,
                                    .memory_bytes = options.memory_bytes,
                                    .threads = options.threads,
                                    .precision = options.precision,
                                    .hub_cache = options.hub.cache,
                                    .logger = options.logger}));
  TINKER_TRY(auto imported, ImportedAdapters::read(options.adapters, *models));
  const bool is_loopback = !options.unix_socket.empty() || is_loopback_host(options.host);
  ServiceOptions service = {
      .flags = std::move(flags),
      .session_timeout = options.session_timeout,
      .limits = options.limits,
      .is_loopback = is_loopback,
      .is_local = is_loopback && (options.public_url.empty() || is_local_url(options.public_url)),
      .logger = options.logger};
  if (!options.public_url.empty()) {
    TINKER_TRY(service.public_url, http::normalize_base_url(options.public_url));
    TINKER_TRY(const auto url, http::Url::parse(service.public_url));
    service.public_origin = url.origin();
  }
  if (!options.unix_socket.empty()) {
    service.unix_url = http::unix_url(std::filesystem::absolute(options.unix_socket).string());
    base_url_ = service.unix_url;
  }
  std::unique_ptr<Journals> journals;
  if (options.durable) {
    TINKER_TRY(make_private_folder(data_dir_ / "journal"));
    const JournalOptions kept = {.folder = data_dir_ / "journal",
                                 .snapshot_steps = options.snapshot_steps};
    journals = std::make_unique<Journals>(loop_, kept, options.logger);
  }
  service_ = std::make_shared<Service>(Service::Parts{.loop = loop_,
                                                      .workers = workers_,
                                                      .store = std::move(store),
                                                      .models = std::move(models),
                                                      .imported = std::move(imported),
                                                      .access = std::move(access),
                                                      .options = std::move(service),
                                                      .journals = std::move(journals)});
  const auto handler = [service = service_](http::ServerRequest request,
                                            http::ResponseWriter writer) {
    return answer(service, std::move(request), std::move(writer));
  };
  http_ = http::Server::create(loop_, handler, http_options(options.limits));
  return {};
}

Result<void> Host::listen(const LocalServerOptions& options) {
  std::optional<http::TlsIdentity> identity;
  if (!options.tls_certificate.empty()) {
    identity = http::TlsIdentity{.certificate_file = options.tls_certificate.string(),
                                 .key_file = options.tls_key.string()};
  }
  const http::ListenAddress address = {
      .host = options.host, .port = options.port, .unix_path = options.unix_socket.string()};
  std::promise<Result<std::uint16_t>> listening;
  loop_->post([&] { listening.set_value(http_->listen(address, identity)); });
  TINKER_TRY(port_, listening.get_future().get());
  if (options.unix_socket.empty()) {
    const std::string_view scheme = identity ? "https://" : "http://";
    const bool is_v6 = options.host.find(':') != std::string::npos;
    base_url_ = base::concat(scheme, is_v6 ? "[" : "", options.host, is_v6 ? "]:" : ":", port_);
  }
  return {};
}

Result<void> Host::stop(std::chrono::nanoseconds limit) {
  const std::scoped_lock lock(stop_mutex_);
  if (!thread_.joinable()) return {};
  loop_->post([loop = loop_, service = service_, http = http_, limit] {
    auto task = wind_down(service, http, limit);
    async::run_detached(
        loop, std::make_shared<async::Scope>(), std::move(task), [loop](const detail::Late<void>&) {
          loop->stop();
        });
  });
  thread_.join();
  // The data folder is released here, after the last write to it, even if handles are left.
  http_.reset();
  service_->models.reset();  // ends with what the engines are writing
  if (service_->journals) service_->journals->close();
  service_->disk.close();
  service_.reset();
  return {};
}

Result<void> Host::reload_certificates() {
  const std::scoped_lock lock(stop_mutex_);
  if (!thread_.joinable())
    return Error{.code = ErrorCode::closed, .message = "the server has stopped"};
  std::promise<Result<void>> done;
  loop_->post([this, &done] { done.set_value(http_->reload_certificates()); });
  return done.get_future().get();
}

Host::~Host() {
  (void)stop(std::chrono::nanoseconds(0));
}

}  // namespace tinker::server
