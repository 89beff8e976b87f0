#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
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

/// One header, seen where it is kept.
struct Header {
  std::string_view name = {};
  std::string_view value = {};
  friend bool operator==(const Header&, const Header&) = default;
};

/// Whether two header names are the same, which does not depend on their case.
bool same_name(std::string_view a, std::string_view b) noexcept;

/// The headers of a message, in order. Names are compared without case and kept as given.
///
/// All text lies in one block, so that a copy costs two allocations however many there are.
class Headers {
 public:
  class Iterator;

  Headers() = default;
  Headers(std::initializer_list<Header> headers) {
    for (const auto& header : headers) add(header.name, header.value);
  }

  /// Appends, also beside one of that name.
  void add(std::string_view name, std::string_view value);
  /// Replaces all of that name.
  void set(std::string_view name, std::string_view value);
  void remove(std::string_view name);
  /// Makes room for `count` headers of `bytes` characters in all.
  void reserve(std::size_t count, std::size_t bytes);
  /// The first of that name, or nothing; valid until the next change.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    return find(name).has_value();
  }

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Each is a `Header`, valid until the next change.
  [[nodiscard]] Iterator begin() const noexcept;
  [[nodiscard]] Iterator end() const noexcept;

  friend bool operator==(const Headers& a, const Headers& b) noexcept;

 private:
  struct Entry {
    std::size_t at;  // of the name; the value follows it
    std::uint32_t name_size;
    std::uint32_t value_size;
  };
  [[nodiscard]] Header header(const Entry& entry) const noexcept {
    const std::string_view text = text_;
    return {.name = text.substr(entry.at, entry.name_size),
            .value = text.substr(entry.at + entry.name_size, entry.value_size)};
  }

  std::string text_ = {};
  std::vector<Entry> entries_ = {};
};

class Headers::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Header;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = Header;

  Iterator() = default;

  Header operator*() const noexcept { return headers_->header(headers_->entries_[index_]); }
  Iterator& operator++() noexcept {
    ++index_;
    return *this;
  }
  Iterator operator++(int) noexcept {
    const Iterator before = *this;
    ++index_;
    return before;
  }
  friend bool operator==(const Iterator&, const Iterator&) = default;

 private:
  friend class Headers;
  Iterator(const Headers* headers, std::size_t index) noexcept : headers_(headers), index_(index) {}

  const Headers* headers_ = nullptr;
  std::size_t index_ = 0;
};

inline Headers::Iterator Headers::begin() const noexcept {
  return {this, 0};
}
inline Headers::Iterator Headers::end() const noexcept {
  return {this, entries_.size()};
}

enum class Method { get, post, put, delete_, head, options, patch };
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

struct Response {
  int status = 0;
  Headers headers = {};
  std::string body = {};  ///< Decompressed.
};

/// Takes the body of an answer piece by piece, so that it need not fit into memory.
///
/// Called by the transport, one call at a time, on a thread that must not be blocked.
class BodySink {
 public:
  virtual ~BodySink() = default;

  /// The head of the answer, before any of its body. An error ends the request with it.
  virtual Result<void> begin(const Response& head) = 0;
  /// The next piece, as it came: still compressed where the head says so. An error ends the request
  /// with it.
  virtual Result<void> write(std::string_view piece) = 0;
  /// While false, the transport takes no more from the connection than it has already.
  [[nodiscard]] virtual bool has_room() const noexcept = 0;

 protected:
  BodySink() = default;
  BodySink(const BodySink&) = default;
  BodySink& operator=(const BodySink&) = default;
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
  /// Gets the body of the answer, whatever its status and length; `Response::body` stays empty.
  /// Default: none.
  std::shared_ptr<BodySink> sink = {};
  /// Whether it may be sent again when a connection that was kept from an earlier request ends
  /// without a word.
  bool is_repeatable = true;
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
