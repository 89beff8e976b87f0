#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tinker/types/date_time.h"
#include "tinker/types/metadata.h"
#include "tinker/types/open_enum.h"
#include "tinker/types/tinker_path.h"

namespace tinker {

/// Where a page of a list stands (PROTOCOL 7.8).
struct Cursor {
  std::int64_t offset = 0;
  std::int64_t limit = 0;
  std::int64_t total_count = 0;

  friend bool operator==(const Cursor&, const Cursor&) = default;
};

/// A stored checkpoint (PROTOCOL 7.7).
struct Checkpoint {
  std::string checkpoint_id = {};  ///< "weights/step-10", unique within the run.
  OpenEnum<CheckpointType> checkpoint_type = {};
  DateTime time = {};
  std::string tinker_path = {};
  std::optional<std::int64_t> size_bytes = {};
  bool is_public = false;  ///< `public` on the wire.
  std::optional<StringMap> user_metadata = {};
  std::optional<DateTime> expires_at = {};     ///< Absent: never.
  std::optional<std::string> base_model = {};  ///< From servers since 0.39 (PROTOCOL 14).

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

/// GET checkpoints (PROTOCOL 9.24, 9.30).
struct CheckpointsListResponse {
  std::vector<Checkpoint> checkpoints = {};
  std::optional<Cursor> cursor = {};

  friend bool operator==(const CheckpointsListResponse&, const CheckpointsListResponse&) = default;
};

/// A model that was or is being trained (PROTOCOL 7.9).
struct TrainingRun {
  std::string training_run_id = {};
  std::string base_model = {};
  std::string model_owner = {};
  bool is_lora = false;
  bool corrupted = false;
  std::optional<std::int64_t> lora_rank = {};
  DateTime last_request_time = {};
  std::optional<Checkpoint> last_checkpoint = {};
  std::optional<Checkpoint> last_sampler_checkpoint = {};
  std::optional<StringMap> user_metadata = {};

  friend bool operator==(const TrainingRun&, const TrainingRun&) = default;
};

/// GET training_runs (PROTOCOL 9.22).
struct TrainingRunsResponse {
  std::vector<TrainingRun> training_runs = {};
  Cursor cursor = {};

  friend bool operator==(const TrainingRunsResponse&, const TrainingRunsResponse&) = default;
};

}  // namespace tinker
