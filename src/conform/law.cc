#include "conform/law.h"

#include <utility>

namespace tinker::conform {

Error broken(std::string evidence) {
  return {.code = ErrorCode::invalid_response, .message = std::move(evidence)};
}

Error undecided(std::string reason) {
  return {.code = ErrorCode::cancelled, .message = std::move(reason)};
}

std::vector<Law> all_laws() {
  std::vector<Law> out;
  for (const auto laws : {wire_laws(),
                          order_laws(),
                          futures_laws(),
                          losses_laws(),
                          optimizer_laws(),
                          sampling_laws(),
                          logprobs_laws(),
                          checkpoints_laws(),
                          catalogue_laws(),
                          refusals_laws(),
                          limits_laws()}) {
    out.insert(out.end(), laws.begin(), laws.end());
  }
  return out;
}

}  // namespace tinker::conform
