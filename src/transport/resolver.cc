#include "transport/resolver.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "async/thread_pool.h"
#include "base/strings.h"
#include "http/url.h"
#include "transport/exchange.h"

namespace tinker::http {

namespace {

constexpr auto kKnownFor = std::chrono::seconds(30);
constexpr std::size_t kMaxEntries = 256;

Address address_of(const addrinfo& info) {
  Address address;
  if (info.ai_family == AF_INET6) {
    sockaddr_in6 v6 = {};
    std::memcpy(&v6, info.ai_addr, sizeof v6);
    std::memcpy(address.bytes.data(), &v6.sin6_addr, 16);
    address.is_v6 = true;
    address.scope = v6.sin6_scope_id;
    address.port = ntohs(v6.sin6_port);
  } else {
    sockaddr_in v4 = {};
    std::memcpy(&v4, info.ai_addr, sizeof v4);
    std::memcpy(address.bytes.data(), &v4.sin_addr, 4);
    address.port = ntohs(v4.sin_port);
  }
  return address;
}

}  // namespace

struct Resolver::State {
  std::weak_ptr<async::EventLoop> loop;
  Lookup lookup;
  std::map<Key, Entry> entries = {};

  void finish(const Key& key, const Result<Addresses>& result, async::TimePoint now) {
    const auto found = entries.find(key);
    if (found == entries.end()) return;
    auto waiting = std::exchange(found->second.waiting, {});
    if (result.ok()) {
      found->second.addresses = *result;
      found->second.known_until = now + kKnownFor;
    } else {
      entries.erase(found);
    }
    for (auto& done : waiting) done(result);
  }
};

Resolver::Resolver(std::weak_ptr<async::EventLoop> loop, Lookup lookup)
    : state_(std::make_shared<State>(State{.loop = std::move(loop), .lookup = std::move(lookup)})) {
}
Resolver::~Resolver() = default;

void Resolver::resolve(const std::string& host, std::uint16_t port, Done done) {
  const auto loop = state_->loop.lock();
  if (!loop) return;
  if (is_ip_address(host)) {
    auto addresses = state_->lookup(host, port);
    if (addresses.ok()) return done(std::move(addresses));
    return fail_later(*loop, std::move(done), std::move(addresses).error());
  }

  if (state_->entries.size() >= kMaxEntries) {
    std::erase_if(state_->entries, [](const auto& entry) { return entry.second.waiting.empty(); });
  }
  Entry& entry = state_->entries[Key(host, port)];
  if (!entry.addresses.empty() && entry.known_until > loop->now()) return done(entry.addresses);
  entry.waiting.push_back(std::move(done));
  if (entry.waiting.size() > 1) return;

  const auto look_up = [weak = std::weak_ptr(state_),
                        weak_loop = state_->loop,
                        lookup = state_->lookup,
                        key = Key(host, port)] {
    async::enter_library_thread("tinker-resolve");
    const auto result = lookup(key.first, key.second);
    const auto owner = weak_loop.lock();
    if (!owner) return;
    owner->post([weak, key, result, now = owner->now()] {
      if (const auto state = weak.lock()) state->finish(key, result, now);
    });
  };
  try {
    std::thread(look_up).detach();
  } catch (const std::system_error& e) {
    auto waiting = std::exchange(entry.waiting, {});
    fail_later(*loop,
               std::move(waiting.front()),
               connection_error(base::concat("cannot resolve host ", host, ": ", e.what())));
  }
}

void Resolver::fail_later(async::EventLoop& loop, Done done, Error error) {
  loop.post(
      [weak = std::weak_ptr(state_), done = std::move(done), error = std::move(error)]() mutable {
        if (!weak.expired()) done(std::move(error));
      });
}

void Resolver::forget(const std::string& host, std::uint16_t port) {
  const auto found = state_->entries.find(Key(host, port));
  if (found != state_->entries.end() && found->second.waiting.empty()) state_->entries.erase(found);
}

Result<Resolver::Addresses> Resolver::system_lookup(const std::string& host, std::uint16_t port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (is_ip_address(host) ? AI_NUMERICHOST : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    const std::string reason = error == EAI_SYSTEM ? error_text(errno) : ::gai_strerror(error);
    return connection_error(base::concat("cannot resolve host ", host, ": ", reason));
  }
  Addresses addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    const Address address = address_of(*info);
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  if (addresses.empty()) {
    return connection_error(base::concat("cannot resolve host ", host, ": it has no address"));
  }
  return addresses;
}

}  // namespace tinker::http
