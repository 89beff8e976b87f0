#include "tinker/types/weights.h"

#include "base/console_urls.h"
#include "tinker/types/tinker_path.h"

namespace tinker {

Result<std::string> SaveWeightsForSamplerResponse::get_console_url() const {
  TINKER_TRY(const auto checkpoint, TinkerPath::parse(path));
  return base::console_checkpoint_url(checkpoint.training_run_id, checkpoint.checkpoint_id());
}

std::string SaveWeightsForSamplerResponse::get_playground_url() const {
  return base::console_playground_url(path);
}

}  // namespace tinker
