#include "session/environment.h"

#include "http/url.h"

namespace tinker::session {

namespace {

constexpr std::string_view kOfficialHost = "tinker.thinkingmachines.dev";
static_assert(kOfficialBaseUrl.find(kOfficialHost) == std::string_view("https://").size());

Result<std::string> normalized(std::string_view url, std::string_view source) {
  auto base_url = http::normalize_base_url(url);
  if (!base_url) return std::move(base_url).error().with_context(source);
  return base_url;
}

}  // namespace

Result<std::string> resolve_base_url(std::string_view argument, const Environment& environment) {
  if (!argument.empty()) return normalized(argument, "base_url");
  if (const auto url = variable(environment, "TINKER_BASE_URL")) {
    return normalized(*url, "TINKER_BASE_URL");
  }
  return std::string(kOfficialBaseUrl);
}

bool is_official_host(std::string_view base_url) {
  const auto url = http::Url::parse(base_url);
  if (!url) return false;
  std::string_view host = url->host;
  if (host.ends_with('.')) host.remove_suffix(1);  // fully qualified, the same name
  return host == kOfficialHost;
}

}  // namespace tinker::session
