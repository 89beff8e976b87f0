#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "session/jwt.h"
#include "wire/base64.h"

namespace {

using tinker::Secret;
using namespace tinker::session;

void read(const Secret& jwt) {
  constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1'767'225'600)};
  const auto claims = parse_jwt(jwt);
  const auto left = seconds_left(jwt, kNow);
  TINKER_CHECK(left.has_value() == (claims.ok() && claims->exp.has_value()));
  TINKER_CHECK(!left || std::isfinite(*left));
  const auto owner = whoami(jwt);
  TINKER_CHECK(owner.ok() == (claims.ok() && claims->sub && claims->org_id));
  TINKER_CHECK(!owner || !owner->email || !owner->email->empty());
  TINKER_CHECK(!is_identity_jwt(jwt) || (looks_like_jwt(jwt) && claims.ok()));
}

}  // namespace

// The input once as a token and once as the payload of one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read(Secret(std::string(text)));
  read(Secret("eyJhbGciOiJub25lIn0." + tinker::wire::to_base64(text) + ".c2ln"));
  return 0;
}
