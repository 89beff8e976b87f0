#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/url.h"

namespace {

using tinker::http::Url;

/// What was accepted is in its final form and fits a request line.
void check_stable(const Url& url) {
  const auto again = Url::parse(url.to_string());
  TINKER_CHECK(again.ok() && *again == url && again->same_origin(url));
  TINKER_CHECK(url.target.starts_with('/') && url.port != 0 && !url.host.empty());
  for (const char c : url.to_string()) TINKER_CHECK(c > ' ' && c < 0x7F && c != '#');
}

}  // namespace

// A base on the first line, a reference on the second.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::http;
  if (size > 4096) return 0;  // encoding may lengthen what just fits
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = text.substr(0, text.find('\n'));
  const auto reference = text.substr(std::min(line.size() + 1, text.size()));

  const auto url = Url::parse(line);
  if (url) {
    check_stable(*url);
    const auto next = url->resolve(reference);
    if (next) check_stable(*next);
  } else {
    TINKER_CHECK(url.error().message.size() < 4096);
  }
  if (const auto base = normalize_base_url(line)) {
    const auto again = normalize_base_url(*base);
    TINKER_CHECK(again.ok() && *again == *base && !base->ends_with('/'));
    const auto path = "/checkpoints/" + encode_checkpoint_id(reference);
    const auto below = Url::parse(join_url(*base, path));
    TINKER_CHECK(below.ok() && below->to_string() == *base + path);
  }
  return 0;
}
