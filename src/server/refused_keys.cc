#include "server/refused_keys.h"

#include <utility>

#include "base/strings.h"

namespace tinker::server {

std::optional<std::string> RefusedKeys::add(std::string_view peer) {
  const std::string_view address = peer.substr(0, peer.rfind(':'));  // the port says nothing
  if (!std::exchange(is_told_, true)) {
    return base::concat("a request from ", address, " is refused: it has no valid key");
  }
  ++more_;
  last_ = address;
  return std::nullopt;
}

std::optional<std::string> RefusedKeys::end_period() {
  is_told_ = more_ > 0;
  if (more_ == 0) return std::nullopt;
  return base::concat(std::exchange(more_, 0),
                      " more requests without a valid key were refused, the last one from ",
                      last_);
}

}  // namespace tinker::server
