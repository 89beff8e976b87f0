#pragma once

#include <string_view>

#include "tinker/checkpoint_keeper.h"
#include "tinker/types/checkpoint.h"

namespace tinker::client {

/// What the metadata of a checkpoint says about its training, if a keeper made it; the metric, if
/// it has one of that name.
SavedCheckpoint describe(const Checkpoint& checkpoint, std::string_view metric);

}  // namespace tinker::client
