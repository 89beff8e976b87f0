#include "transport/proxy.h"

#include <algorithm>

#include "base/strings.h"
#include "http/ascii.h"

namespace tinker::http {
namespace {

Error bad_proxy(std::string_view text, std::string_view why) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("invalid proxy '", printable_url(text), "': ", why)};
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) -> std::uint32_t {
      return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U;
    };
    const std::uint32_t group = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
    out += kDigits[group >> 18U];
    out += kDigits[group >> 12U & 63U];
    out += i + 1 < bytes.size() ? kDigits[group >> 6U & 63U] : '=';
    out += i + 2 < bytes.size() ? kDigits[group & 63U] : '=';
  }
  return out;
}

/// "user:password@" of a URL as a header value; empty for neither.
Secret basic_authorization(std::string_view userinfo) {
  if (userinfo.ends_with('@')) userinfo.remove_suffix(1);
  const auto colon = std::min(userinfo.find(':'), userinfo.size());
  const auto user = ascii::percent_decoded(userinfo.substr(0, colon));
  const auto password =
      ascii::percent_decoded(userinfo.substr(std::min(colon + 1, userinfo.size())));
  if (user.empty() && password.empty()) return {};
  return Secret(base::concat("Basic ", base64(base::concat(user, ":", password))));
}

Result<Proxy> parse_proxy(std::string_view text) {
  text = ascii::trim(text);
  const auto mark = text.find("://");
  const bool has_scheme = mark != std::string_view::npos;
  const auto scheme = has_scheme ? ascii::to_lower(text.substr(0, mark)) : "http";
  const auto rest = has_scheme ? text.substr(mark + 3) : text;
  if (scheme != "http" && scheme != "https") {
    return bad_proxy(text, "its scheme is not supported, expected http or https");
  }
  const auto authority = rest.substr(0, rest.find_first_of("/?#"));
  if (rest.find('@', authority.size()) != std::string_view::npos) {
    return bad_proxy(text,
                     "'/', '?' and '#' in a user name or password have to be percent-encoded");
  }
  // With an unencoded '@' in the password, the last one is meant.
  const auto host = authority.substr(authority.rfind('@') + 1);
  const auto userinfo = authority.substr(0, authority.size() - host.size());
  // "http:/proxy" would read as a host named http.
  if (host.ends_with(':')) return bad_proxy(text, "expected a port after ':'");
  auto url = Url::parse(base::concat(scheme, "://", host));
  if (!url) return url.error().with_context("proxy");
  return Proxy{.url = *std::move(url), .authorization = basic_authorization(userinfo)};
}

/// The variable in lower case if it is set, else in upper case; empty counts as not set.
struct Variable {
  std::string name;
  std::string value;
};

Variable read_variable(const ProxyRules::Getenv& getenv, const char* upper) {
  auto lower = ascii::to_lower(std::string_view(upper));
  if (auto value = getenv(lower.c_str()))
    return {.name = std::move(lower), .value = *std::move(value)};
  const bool cgi = std::string_view(upper) == "HTTP_PROXY" && getenv("REQUEST_METHOD").has_value();
  return {.name = upper, .value = cgi ? "" : getenv(upper).value_or("")};
}

Result<std::optional<Proxy>> read_proxy(const ProxyRules::Getenv& getenv, const char* upper) {
  const auto variable = read_variable(getenv, upper);
  if (variable.value.empty()) return std::optional<Proxy>();
  auto proxy = parse_proxy(variable.value);
  if (!proxy) return proxy.error().with_context(variable.name);
  proxy->source = variable.name;
  return std::optional(*std::move(proxy));
}

}  // namespace

Result<ProxyRules> ProxyRules::from_environment(const Getenv& getenv) {
  constexpr std::string_view kSeparators = ", \t\r\n";
  ProxyRules rules;
  const auto no_proxy = read_variable(getenv, "NO_PROXY").value;
  std::string_view rest = no_proxy;
  while (!rest.empty()) {
    const auto entry = rest.substr(0, rest.find_first_of(kSeparators));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (entry == "*") return none();
    if (auto parsed = NoProxyEntry::parse(entry)) rules.exceptions_.push_back(*std::move(parsed));
  }
  TINKER_TRY(auto all, read_proxy(getenv, "ALL_PROXY"));
  TINKER_TRY(rules.http_, read_proxy(getenv, "HTTP_PROXY"));
  TINKER_TRY(rules.https_, read_proxy(getenv, "HTTPS_PROXY"));
  if (!rules.http_) rules.http_ = all;
  if (!rules.https_) rules.https_ = std::move(all);
  return rules;
}

Result<ProxyRules> ProxyRules::explicit_proxy(std::string_view url) {
  TINKER_TRY(auto proxy, parse_proxy(url));
  proxy.source = "TransportOptions::proxy";
  ProxyRules rules;
  rules.http_ = proxy;
  rules.https_ = std::move(proxy);
  return rules;
}

const Proxy* ProxyRules::for_url(const Url& url) const {
  if (url.is_unix()) return nullptr;
  const auto& proxy = url.is_tls() ? https_ : http_;
  if (!proxy) return nullptr;
  const bool excepted =
      std::ranges::any_of(exceptions_, [&](const auto& entry) { return entry.matches(url); });
  return excepted ? nullptr : &*proxy;
}

}  // namespace tinker::http
