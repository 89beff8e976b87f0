#include "tinker/types/optimizer.h"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace tinker {
namespace {

Error refuse(std::string_view name, double value, std::string_view expected) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat(name, " is ", value, "; expected ", expected)};
}

bool is_share(double beta) {
  return beta >= 0 && beta < 1;
}

}  // namespace

Result<void> AdamParams::validate() const {
  if (!std::isfinite(learning_rate) || learning_rate < 0)
    return refuse("learning_rate", learning_rate, "a finite number of at least 0");
  if (!is_share(beta1)) return refuse("beta1", beta1, "0 <= beta1 < 1");
  if (!is_share(beta2)) return refuse("beta2", beta2, "0 <= beta2 < 1");
  const std::array<std::pair<std::string_view, double>, 3> others = {
      {{"eps", eps}, {"weight_decay", weight_decay}, {"grad_clip_norm", grad_clip_norm}}};
  for (const auto& [name, value] : others) {
    if (!std::isfinite(value)) return refuse(name, value, "a finite number");
  }
  return {};
}

}  // namespace tinker
