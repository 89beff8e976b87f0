#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tinker/types/checkpoint.h"
#include "tinker/types/date_time.h"
#include "tinker/types/metadata.h"
#include "tinker/types/open_enum.h"
#include "tinker/types/session_search.h"
#include "tinker/types/tinker_path.h"

namespace tinker {

/// Where the last page ended.
struct CheckpointSearchCursor {
  DateTime last_created_at = {};
  std::string last_checkpoint_uuid = {};  ///< Chosen by the server.

  friend bool operator==(const CheckpointSearchCursor&, const CheckpointSearchCursor&) = default;
};

/// POST checkpoints/search, of servers from 0.39 on (PROTOCOL 14).
struct CheckpointSearchRequest {
  std::optional<std::vector<std::string>> project_ids = {};
  StringMap user_metadata = {};  ///< Every pair must match.
  std::optional<OpenEnum<CheckpointType>> checkpoint_type = {};
  SearchOwner owner = {};
  std::optional<std::vector<std::string>> base_models = {};  ///< Absent: any; empty: none.
  std::int64_t limit = 50;                                   ///< 1 to 200.
  std::optional<CheckpointSearchCursor> cursor = {};

  friend bool operator==(const CheckpointSearchRequest&, const CheckpointSearchRequest&) = default;
};

struct CheckpointSearchResponse {
  std::vector<Checkpoint> checkpoints = {};                ///< Newest first.
  std::optional<CheckpointSearchCursor> next_cursor = {};  ///< Absent on the last page.

  friend bool operator==(const CheckpointSearchResponse&,
                         const CheckpointSearchResponse&) = default;
};

}  // namespace tinker
