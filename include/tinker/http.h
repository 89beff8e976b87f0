#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tinker/future.h"

/// HTTP as the library speaks it, for programs that bring their own transport or test against
/// `testing::FakeTransport`.
namespace tinker::http {

struct Header {
  std::string name = {};
  std::string value = {};
  friend bool operator==(const Header&, const Header&) = default;
};

/// Whether two header names are the same, which does not depend on their case.
bool same_name(std::string_view a, std::string_view b) noexcept;

/// The headers of a message, in order. Names are compared without case and kept as given.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<Header> headers) : entries_(headers) {}

  /// Appends, also beside one of that name.
  void add(std::string name, std::string value);
  /// Replaces all of that name.
  void set(std::string name, std::string value);
  void remove(std::string_view name);
  /// The first of that name, or nothing; valid until the next change.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return find(name).has_value();
  }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }

  friend bool operator==(const Headers&, const Headers&) = default;

 private:
  std::vector<Header> entries_ = {};
};

enum class Method { get, post, put, delete_ };
/// "GET", "POST" ...
std::string_view to_string(Method method) noexcept;

/// Bytes that are shared, not copied; null is empty.
using Body = std::shared_ptr<const std::string>;
inline std::string_view view(const Body& body) noexcept {
  return body ? std::string_view(*body) : std::string_view();
}

/// How long each phase of a request may stand still.
struct Timeouts {
  std::chrono::nanoseconds connect = std::chrono::seconds(5);  ///< Name lookup to ready connection.
  std::chrono::nanoseconds read = std::chrono::seconds(60);    ///< Between bytes of the answer.
  std::chrono::nanoseconds write = std::chrono::seconds(60);   ///< Between bytes of the request.
  std::chrono::nanoseconds queue = std::chrono::seconds(60);   ///< For a free connection.
};

struct Request {
  Method method = Method::post;
  std::string url = {};  ///< Absolute, `http` or `https`.
  Headers headers = {};  ///< All but Host, Content-Length and what only one connection needs.
  Body body = {};
  Timeouts timeouts = {};
  /// Requests of different channels never share a connection.
  std::uint64_t channel = 0;
  /// A longer answer, counted after decompression, is refused.
  std::size_t max_response_bytes = std::size_t{1} << 30;
};

struct Response {
  int status = 0;
  Headers headers = {};
  std::string body = {};  ///< Decompressed.
};

/// Carries one request to a server and brings the answer, whatever its status.
///
/// Fails with `connection_failed` (also for an answer that is no HTTP), `timed_out`, `cancelled` or
/// `invalid_response` (too long, or its compression is broken). Follows no redirects and repeats
/// nothing.
///
/// Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Cancelling the future ends the request; the connection is kept where the protocol allows.
  virtual Future<Response> send(Request request) = 0;
  /// Idle connections of `channel` are closed now, busy ones after their last answer.
  virtual void close_channel(std::uint64_t /*channel*/) {}

 protected:
  Transport() = default;
  Transport(const Transport&) = default;
  Transport& operator=(const Transport&) = default;
};

}  // namespace tinker::http
