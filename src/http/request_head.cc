#include "http/request_head.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "http/ascii.h"

namespace tinker::http {

namespace {

constexpr std::string_view kCrLf = "\r\n";

bool is_visible(char c) noexcept {
  return c > ' ' && c < 0x7F;
}

/// Not in the name and port of a host. Some end it, others stand before it.
bool ends_authority(char c) noexcept {
  constexpr std::string_view kEnds = "/?#@,\\\"<>^`{|}";
  return !is_visible(c) || kEnds.find(c) != std::string_view::npos;
}

/// Reads the lines of one head.
class HeadReader {
 public:
  HeadReader(const RequestLimits& limits, RequestHead& head) : limits_(limits), head_(head) {}

  std::optional<Refusal> read(std::string_view bytes) {
    std::size_t end = bytes.find(kCrLf);
    if (auto refusal = read_request_line(bytes.substr(0, end))) return refusal;
    bytes.remove_prefix(end + kCrLf.size());
    head_.headers.reserve(16, bytes.size() + 32);
    while ((end = bytes.find(kCrLf)) != 0) {
      if (auto refusal = read_field(bytes.substr(0, end))) return refusal;
      bytes.remove_prefix(end + kCrLf.size());
    }
    return finish();
  }

 private:
  std::optional<Refusal> read_request_line(std::string_view line) {
    const std::size_t first = line.find(' ');
    const std::size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) {
      return Refusal{.status = 400, .why = "the request line is not \"METHOD TARGET VERSION\""};
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, last - first - 1);
    if (!is_token(method)) return Refusal{.status = 400, .why = "the method is not a token"};
    if (auto refusal = read_version(line.substr(last + 1))) return refusal;
    if (target.size() > limits_.max_target_bytes)
      return Refusal{.status = 414, .why = "the target is too long"};
    const auto known = parse_method(method);
    if (!known) return Refusal{.status = 501, .why = "the method is not known here"};
    head_.method = *known;
    return read_target(target);
  }

  std::optional<Refusal> read_version(std::string_view version) {
    const bool is_one = version.size() == 8 && version.starts_with("HTTP/") &&
                        ascii::is_digit(version[5]) && version[6] == '.' &&
                        ascii::is_digit(version[7]);
    if (!is_one)
      return Refusal{.status = 400, .why = "the request line does not end with an HTTP version"};
    if (version[5] != '1')
      return Refusal{.status = 505, .why = "this port speaks HTTP/1.1 and HTTP/2"};
    head_.is_http10 = version[7] == '0';
    head_.is_kept_alive = !head_.is_http10;
    return std::nullopt;
  }

  std::optional<Refusal> read_target(std::string_view target) {
    if (target.empty() || !ascii::is_alpha(target.front())) {
      head_.target = target;
      return check_target(head_.method, target);
    }
    // The absolute form, as sent to proxies; its authority counts instead of `Host`.
    const std::size_t scheme = target.find("://");
    const std::string_view name = target.substr(0, std::min(scheme, target.size()));
    if (scheme == std::string_view::npos ||
        (!same_name(name, "http") && !same_name(name, "https"))) {
      return Refusal{.status = 400, .why = "the target is neither a path nor an http URL"};
    }
    const std::string_view rest = target.substr(scheme + 3);
    authority_ = rest.substr(0, rest.find_first_of("/?"));
    const std::string_view path = rest.substr(authority_.size());
    head_.target = path.starts_with('/') ? path : "/";
    if (path.starts_with('?')) head_.target.append(path);
    if (authority_.empty()) return Refusal{.status = 400, .why = "the target names no host"};
    if (auto refusal = check_authority(authority_)) return refusal;
    return check_target(head_.method, head_.target);
  }

  std::optional<Refusal> read_field(std::string_view line) {
    if (line.front() == ' ' || line.front() == '\t')
      return Refusal{.status = 400, .why = "a header is folded"};
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, std::min(colon, line.size()));
    if (colon == std::string_view::npos || !is_token(name)) {
      return Refusal{.status = 400, .why = "a header has no valid name"};
    }
    const std::string_view value = ascii::trim_blanks(line.substr(colon + 1));
    if (!is_field_value(value))
      return Refusal{.status = 400, .why = "a header's value has a control character"};
    if (head_.headers.size() >= limits_.head.max_fields) {
      return Refusal{.status = 431, .why = "there are too many headers"};
    }
    if (auto refusal = note(name, value)) return refusal;
    head_.headers.add(name, value);
    return std::nullopt;
  }

  /// What a header says about the message and the connection.
  std::optional<Refusal> note(std::string_view name, std::string_view value) {
    switch (name.size()) {
      case 4:
        if (same_name(name, "host")) return note_host(value);
        break;
      case 6:
        if (same_name(name, "expect")) {
          if (!same_name(value, "100-continue"))
            return Refusal{.status = 417, .why = "only 100-continue is known"};
          head_.expects_continue = !head_.is_http10;
        }
        break;
      case 10:
        if (same_name(name, "connection")) {
          if (has_list_token(value, "close")) says_close_ = true;
          if (has_list_token(value, "keep-alive")) says_keep_alive_ = true;
        }
        break;
      case 14:
        if (same_name(name, "content-length")) return note_length(value);
        break;
      case 17:
        if (same_name(name, "transfer-encoding")) return note_coding(value);
        break;
      default: break;
    }
    return std::nullopt;
  }

  std::optional<Refusal> note_host(std::string_view value) {
    if (std::exchange(has_host_, true))
      return Refusal{.status = 400, .why = "there are two Host headers"};
    return check_authority(value);
  }

  std::optional<Refusal> note_length(std::string_view value) {
    if (head_.content_length)
      return Refusal{.status = 400, .why = "there are two Content-Length headers"};
    std::uint64_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (value.empty() || error != std::errc() || end != value.data() + value.size()) {
      return Refusal{.status = 400, .why = "Content-Length is not a number"};
    }
    head_.content_length = length;
    return std::nullopt;
  }

  std::optional<Refusal> note_coding(std::string_view value) {
    if (head_.is_chunked)
      return Refusal{.status = 400, .why = "there are two Transfer-Encoding headers"};
    if (head_.is_http10) return Refusal{.status = 400, .why = "HTTP/1.0 has no Transfer-Encoding"};
    if (!same_name(value, "chunked"))
      return Refusal{.status = 501, .why = "only the coding \"chunked\" is known"};
    head_.is_chunked = true;
    return std::nullopt;
  }

  std::optional<Refusal> finish() {
    if (head_.is_chunked && head_.content_length) {
      return Refusal{.status = 400, .why = "both Content-Length and Transfer-Encoding"};
    }
    if (!has_host_ && !head_.is_http10)
      return Refusal{.status = 400, .why = "there is no Host header"};
    if (!authority_.empty()) head_.headers.set("Host", authority_);
    if (says_keep_alive_) head_.is_kept_alive = true;
    if (says_close_) head_.is_kept_alive = false;
    return std::nullopt;
  }

  const RequestLimits& limits_;
  RequestHead& head_;
  std::string_view authority_;
  bool has_host_ = false;
  bool says_close_ = false;
  bool says_keep_alive_ = false;
};

}  // namespace

std::size_t HeadScanner::scan(std::string_view bytes, const RequestLimits& limits) {
  // No method begins so: another protocol, TLS for instance. Its bytes may never hold a line.
  if (line_ == 0 && !bytes.empty() && !is_token(bytes.substr(0, 1))) {
    refusal_ = {.status = 400, .why = "this is not HTTP"};
    return 0;
  }
  while (true) {
    const std::size_t end = bytes.find('\n', line_);
    const std::size_t seen = end == std::string_view::npos ? bytes.size() : end + 1;
    if (line_ == 0 && seen > limits.max_target_bytes + 64) {
      refusal_ = {.status = 414, .why = "the request line is too long"};
      return 0;
    }
    if (seen > limits.head.max_bytes) {
      refusal_ = {.status = 431, .why = "the head is too long"};
      return 0;
    }
    if (end == std::string_view::npos) return 0;
    if (end == line_ || bytes[end - 1] != '\r') {
      refusal_ = {.status = 400, .why = "a line does not end with CRLF"};
      return 0;
    }
    const bool is_empty = end == line_ + 1;
    line_ = seen;
    if (is_empty) return seen;
  }
}

std::optional<Refusal> parse_request_head(std::string_view bytes,
                                          const RequestLimits& limits,
                                          RequestHead& head) {
  return HeadReader(limits, head).read(bytes);
}

std::optional<Refusal> check_target(Method method, std::string_view target) {
  if (!std::ranges::all_of(target, is_visible)) {
    return Refusal{.status = 400, .why = "the target has a character that no URL has"};
  }
  if (target.find('#') != std::string_view::npos) {
    return Refusal{.status = 400, .why = "the target has a fragment"};
  }
  if (target.starts_with('/') || (target == "*" && method == Method::options)) return std::nullopt;
  return Refusal{.status = 400, .why = "the target is neither a path nor an http URL"};
}

std::optional<Refusal> check_authority(std::string_view value) {
  if (std::ranges::none_of(value, ends_authority)) return std::nullopt;
  return Refusal{.status = 400, .why = "the name of the host has a character that no host has"};
}

std::optional<Method> parse_method(std::string_view name) noexcept {
  for (const Method method : {Method::get,
                              Method::post,
                              Method::put,
                              Method::delete_,
                              Method::head,
                              Method::options,
                              Method::patch}) {
    if (to_string(method) == name) return method;
  }
  return std::nullopt;
}

bool has_list_token(std::string_view list, std::string_view token) noexcept {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    if (same_name(ascii::trim_blanks(item), token)) return true;
  }
  return false;
}

}  // namespace tinker::http
