#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "engine/adapter.h"
#include "engine/optimizer.h"
#include "tinker/engine.h"
#include "tinker/result.h"

/// An adapter on disk: adapter_model.safetensors and adapter_config.json as PEFT has them;
/// optimizer.safetensors with the moments under PEFT's names, "m." and "v." before them, and family
/// and step as metadata; and checkpoint_complete, which is empty.
namespace tinker::engine {

/// Makes the folder, without the optimizer's state if there is none. Until all of it is on the
/// disk, `folder` is what it was. Fails with `invalid_argument` for a folder that is there and
/// holds anything but these files, with `io_error` for what cannot be written.
Result<void> save_checkpoint(const std::filesystem::path& folder,
                             const Adapter& adapter,
                             const OptimizerState* optimizer,
                             const std::string& base_model);

struct Checkpoint {
  std::shared_ptr<const LoraLayout> layout = {};
  Floats values = {};
  OptimizerState optimizer = {};  ///< A new one unless it was asked for.
};

/// All of it is of one checkpoint, also while another takes its place. Fails with
/// `invalid_argument`, and names the file, the member or the tensor, for what is not complete, not
/// an adapter of this model, has numbers that are not finite or second moments below 0, or lacks
/// what is asked for; with `io_error` for a folder that cannot be opened, or is always another.
Result<Checkpoint> load_checkpoint(const std::filesystem::path& folder,
                                   const ModelConfig& model,
                                   CheckpointParts parts);

/// From what optimizer.safetensors holds. Fails likewise.
Result<OptimizerState> read_optimizer_state(std::string_view bytes, const LoraLayout& layout);

/// Fails with `invalid_argument`, and names what differs, unless `found` is what a run of shape
/// `expected` can go on from.
Result<void> check_same_shape(const LoraShape& found, const LoraShape& expected);

}  // namespace tinker::engine
