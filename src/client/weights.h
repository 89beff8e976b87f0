#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "client/rest.h"
#include "tinker/trace_context.h"
#include "tinker/types/tinker_path.h"
#include "tinker/types/weights.h"

namespace tinker::client {

/// Makes `call` one about a checkpoint: "weights/step-10" of a run, and what is below it.
void address(api::Call& call,
             std::string_view training_run_id,
             std::string_view checkpoint_id,
             std::string_view tail);

/// The call that copies a checkpoint into a project (R11.14).
Result<RestCall> prepare_copy(const RestState& state, std::string path, CopyOptions options);
async::Task<std::string> run_copy(RestState::Source source, RestCall copy);

/// Where the archive of a checkpoint is, on servers that make them (R11.4, PROTOCOL 9.25).
async::Task<CheckpointArchiveUrlResponse> find_archive(RestState::Source source,
                                                       TinkerPath path,
                                                       std::optional<TraceContext> trace);

}  // namespace tinker::client
