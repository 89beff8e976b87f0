#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/event_loop.h"
#include "http/socket.h"
#include "tinker/result.h"

namespace tinker::http {

/// Looks up names, each once for all who ask at the same time, and remembers the answer for a
/// while. Loop thread only.
///
/// A lookup can hang for as long as a name server likes. It runs on a thread of its own that nobody
/// ever waits for.
class Resolver {
 public:
  using Addresses = std::vector<Address>;
  /// Blocks; called on any thread. Yields at least one address, or an error.
  using Lookup = std::function<Result<Addresses>(const std::string& host, std::uint16_t port)>;
  using Done = UniqueFunction<void(Result<Addresses>)>;

  explicit Resolver(std::weak_ptr<async::EventLoop> loop)
      : Resolver(std::move(loop), system_lookup) {}
  Resolver(std::weak_ptr<async::EventLoop> loop, Lookup lookup);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  /// `done` is called later, or inside the call when the addresses are known; never after the
  /// resolver has died.
  void resolve(const std::string& host, std::uint16_t port, Done done);
  /// None of the addresses could be reached: look again next time.
  void forget(const std::string& host, std::uint16_t port);

  /// What the operating system knows.
  static Result<Addresses> system_lookup(const std::string& host, std::uint16_t port);

 private:
  using Key = std::pair<std::string, std::uint16_t>;
  struct Entry {
    Addresses addresses = {};
    async::TimePoint known_until = {};
    std::vector<Done> waiting = {};  // while a lookup is under way
  };
  struct State;
  void fail_later(async::EventLoop& loop, Done done, Error error);

  std::shared_ptr<State> state_;
};

}  // namespace tinker::http
