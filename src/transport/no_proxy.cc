#include <algorithm>
#include <charconv>

#include <arpa/inet.h>

#include "http/ascii.h"
#include "transport/proxy.h"

namespace tinker::http {
namespace {

/// A name as it is compared: lower case, without the dot that ends a full name.
std::string comparable(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return ascii::to_lower(name);
}

template <typename Number>
std::optional<Number> read_number(std::string_view text) noexcept {
  Number value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// Whether the first `bits` of both are the same.
bool same_prefix(const unsigned char* a, const unsigned char* b, std::size_t bits) noexcept {
  const auto whole = bits / 8;
  if (!std::equal(a, a + whole, b)) return false;
  const auto mask = static_cast<unsigned char>(0xFF00U >> (bits % 8));
  return bits % 8 == 0 || ((a[whole] ^ b[whole]) & mask) == 0;
}

}  // namespace

NoProxyEntry::Address NoProxyEntry::Address::parse(std::string_view text) {
  const std::string terminated(text);
  Address address;
  if (::inet_pton(AF_INET, terminated.c_str(), address.bytes.data()) == 1) {
    address.size = 4;
  } else if (::inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) {
    address.size = 16;
  }
  return address;
}

std::optional<NoProxyEntry> NoProxyEntry::parse(std::string_view text) {
  NoProxyEntry entry;
  text = ascii::trim(text);
  const auto mark = text.find("://");
  const bool has_scheme = mark != std::string_view::npos;
  if (has_scheme) {
    entry.scheme_ = ascii::to_lower(text.substr(0, mark));
    if (entry.scheme_ == "all") entry.scheme_.clear();
    text.remove_prefix(mark + 3);
    text = text.substr(0, text.find_first_of("/?#"));
    if (text.empty() || text == "*") return entry;
  }
  if (entry.read_addresses(text)) return entry;

  // Names and addresses in brackets may have a port.
  const auto colon = text.rfind(':');
  if (colon != std::string_view::npos && !text.ends_with(']')) {
    entry.port_ = read_number<std::uint16_t>(text.substr(colon + 1));
    if (!entry.port_) return std::nullopt;
    text = text.substr(0, colon);
  }
  const bool bracketed = text.starts_with('[') && text.ends_with(']');
  const bool ported = entry.port_.has_value();
  if (bracketed)
    return entry.read_addresses(text.substr(1, text.size() - 2)) ? std::optional(entry)
                                                                 : std::nullopt;
  if (ported && text.find(':') == std::string_view::npos && entry.read_addresses(text))
    return entry;

  entry.read_name(text);
  if (has_scheme && entry.kind_ == Kind::name_and_below) entry.kind_ = Kind::exact_name;
  if (entry.name_.empty()) return std::nullopt;
  return entry;
}

/// "address" or "address/bits"; false for anything else.
bool NoProxyEntry::read_addresses(std::string_view text) {
  const auto slash = std::min(text.find('/'), text.size());
  const auto address = Address::parse(text.substr(0, slash));
  const auto all_bits = address.size * 8;
  const auto bits =
      slash == text.size() ? all_bits : read_number<std::size_t>(text.substr(slash + 1));
  if (address.size == 0 || !bits || *bits > all_bits) return false;
  kind_ = Kind::addresses;
  address_ = address;
  prefix_bits_ = *bits;
  return true;
}

void NoProxyEntry::read_name(std::string_view text) {
  if (text.starts_with("*.")) text.remove_prefix(1);
  if (text.starts_with('.')) {
    kind_ = Kind::below_name;
    name_ = comparable(text.substr(1));
    return;
  }
  name_ = comparable(text);
  kind_ = name_ == "localhost" ? Kind::exact_name : Kind::name_and_below;
}

bool NoProxyEntry::matches(const Url& url) const {
  if (!scheme_.empty() && scheme_ != url.scheme) return false;
  if (port_ && *port_ != url.port) return false;
  if (kind_ == Kind::any_host) return true;
  if (kind_ == Kind::addresses) return matches_address(url.host);
  if (is_ip_address(url.host)) return false;  // the end of an address is no domain

  const auto host = comparable(url.host);
  if (host == name_) return kind_ != Kind::below_name;
  const bool below = host.size() > name_.size() && host.ends_with(name_) &&
                     host[host.size() - name_.size() - 1] == '.';
  return below && kind_ != Kind::exact_name;
}

bool NoProxyEntry::matches_address(std::string_view host) const {
  const auto address = Address::parse(host);
  return address.size == address_.size &&
         same_prefix(address.bytes.data(), address_.bytes.data(), prefix_bits_);
}

}  // namespace tinker::http
