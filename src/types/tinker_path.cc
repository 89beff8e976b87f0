#include "tinker/types/tinker_path.h"

#include "base/strings.h"

namespace tinker {
namespace {

constexpr std::string_view kScheme = "tinker://";
constexpr std::array<std::string_view, 3> kKinds = {
    "weights", "sampler_weights", "external_weights"};

Error bad_path(std::string_view text) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("invalid tinker path '",
                                  text,
                                  "': expected tinker://<training run>/<kind>/<name> with kind "
                                  "weights, sampler_weights or external_weights")};
}

}  // namespace

Result<TinkerPath> TinkerPath::parse(std::string_view text) {
  if (!text.starts_with(kScheme)) return bad_path(text);
  const std::string_view rest = text.substr(kScheme.size());
  const auto first = rest.find('/');
  const auto last = rest.rfind('/');
  if (first == std::string_view::npos || first == last) return bad_path(text);
  const std::string_view kind = rest.substr(first + 1, last - first - 1);
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kind == kKinds[i]) {
      return TinkerPath{.training_run_id = std::string(rest.substr(0, first)),
                        .kind = static_cast<CheckpointType>(i),
                        .name = std::string(rest.substr(last + 1))};
    }
  }
  return bad_path(text);
}

std::string TinkerPath::to_string() const {
  return base::concat(kScheme, training_run_id, '/', checkpoint_id());
}

std::string TinkerPath::checkpoint_id() const {
  return base::concat(kKinds[static_cast<std::size_t>(kind)], '/', name);
}

}  // namespace tinker
