#pragma once

#include <optional>
#include <string>

#include "conform/probe.h"
#include "tinker/types/checkpoint.h"

namespace tinker::conform {

/// What the server lists of a training run.
Result<CheckpointsListResponse> list_of_run(Probe& probe, const std::string& run);
/// The entry of its run's list, or nothing.
Result<std::optional<Checkpoint>> entry_of(Probe& probe, const std::string& tinker_path);
/// The entry, which must be there.
Result<Checkpoint> listed(Probe& probe, const std::string& tinker_path);

}  // namespace tinker::conform
