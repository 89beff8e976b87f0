#include <cstdint>
#include <string>
#include <string_view>

#include "transport/proxy.h"

// A proxy on the first line, `NO_PROXY` on the second, the URL of a request on the third.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::http;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = text.find('\n');
  const auto second = first == std::string_view::npos ? first : text.find('\n', first + 1);
  if (second == std::string_view::npos) return 0;
  const std::string proxy(text.substr(0, first));
  const std::string exceptions(text.substr(first + 1, second - first - 1));
  const auto getenv = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "ALL_PROXY") return proxy;
    if (name == "NO_PROXY") return exceptions;
    return std::nullopt;
  };

  const auto url = Url::parse(text.substr(second + 1));
  const auto rules = ProxyRules::from_environment(getenv);
  if (const auto all = ProxyRules::explicit_proxy(proxy); all && url) {
    const auto* const taken = all->for_url(*url);
    TINKER_CHECK(taken != nullptr && taken->url.target == "/");
    const bool has_basic = taken->authorization.expose().starts_with("Basic ");
    TINKER_CHECK(taken->authorization.empty() || has_basic);
  }
  if (!rules || !url) return 0;
  const auto* const taken = rules->for_url(*url);
  const auto entry = NoProxyEntry::parse(exceptions);
  if (entry && entry->matches(*url) && exceptions.find_first_of(", \t\r\n") == std::string::npos) {
    TINKER_CHECK(taken == nullptr);
  }
  return 0;
}
