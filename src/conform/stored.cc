#include "conform/stored.h"

#include <utility>

namespace tinker::conform {

Result<CheckpointsListResponse> list_of_run(Probe& probe, const std::string& run) {
  return probe.read<CheckpointsListResponse>(
      probe.get(base::concat("/api/v1/training_runs/", run, "/checkpoints")));
}

Result<std::optional<Checkpoint>> entry_of(Probe& probe, const std::string& tinker_path) {
  TINKER_TRY(const auto path, TinkerPath::parse(tinker_path));
  TINKER_TRY(const auto list, list_of_run(probe, path.training_run_id));
  for (const auto& each : list.checkpoints) {
    if (each.tinker_path == tinker_path) return std::optional(each);
  }
  return std::optional<Checkpoint>();
}

Result<Checkpoint> listed(Probe& probe, const std::string& tinker_path) {
  TINKER_TRY(auto entry, entry_of(probe, tinker_path));
  if (entry) return *std::move(entry);
  return broken(base::concat("the checkpoints of the run lack '", tinker_path, "'"));
}

}  // namespace tinker::conform
