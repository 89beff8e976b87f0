#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tinker/types/date_time.h"
#include "tinker/types/metadata.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/session.h"
#include "tinker/types/tinker_path.h"

/// What the catalogue keeps. An owner is the URN of whoever the caller's key belongs to.
namespace tinker::server {

using Instant = DateTime::Instant;

struct SessionRecord {
  std::string session_id = {};
  std::string owner = {};
  std::vector<std::string> tags = {};
  StringMap user_metadata = {};
  std::string sdk_version = {};
  std::string project_id = {};  ///< Empty: none.
  std::optional<std::string> display_name = {};
  Instant created_at = {};
  /// How it ended; nothing while it may be used.
  std::optional<SessionFinishReason> finish_reason = {};
  std::optional<std::string> finish_detail = {};
  bool has_expired = false;  ///< Its heartbeats stopped.

  friend bool operator==(const SessionRecord&, const SessionRecord&) = default;
};

/// A model that was or is trained, or a copy's place.
struct RunRecord {
  std::string run_id = {};  ///< "<session>:train:<n>"
  std::string session_id = {};
  std::string owner = {};
  std::string project_id = {};
  std::string base_model = {};
  LoraConfig lora = {};
  OptimizerConfig optimizer = {};
  StringMap user_metadata = {};
  Instant created_at = {};
  Instant last_request_at = {};

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

/// Weights that were saved to sample from though no name leads to them.
struct UnnamedSave {
  std::string run_id = {};
  std::int64_t number = 0;                  ///< Of their sampling session.
  std::optional<std::int64_t> seq_id = {};  ///< Of the request: its place among those of the run.
};

struct SamplerRecord {
  std::string sampler_id = {};  ///< "<session>:sample:<n>"
  std::string session_id = {};
  std::string owner = {};
  std::string base_model = {};
  std::optional<std::string> model_path = {};  ///< A tinker path.

  friend bool operator==(const SamplerRecord&, const SamplerRecord&) = default;
};

/// While it lives, the folder of a checkpoint stays, even without a record. No part of what the
/// record says: all holds are equal.
struct FolderHold {
  std::shared_ptr<const void> token = {};

  friend bool operator==(const FolderHold&, const FolderHold&) { return true; }
};

/// A stored checkpoint. Its folder has the layout of PEFT; records of copies share it.
struct CheckpointRecord {
  std::string run_id = {};
  CheckpointType kind = CheckpointType::training;
  std::string name = {};
  std::string owner = {};
  std::string base_model = {};
  LoraConfig lora = {};
  OptimizerConfig optimizer = {};
  bool has_optimizer_state = false;
  Instant created_at = {};
  std::int64_t size_bytes = 0;
  bool is_public = false;
  std::optional<StringMap> user_metadata = {};
  std::optional<Instant> expires_at = {};
  std::string folder = {};  ///< Below the store's folder of checkpoints; made by the store.
  FolderHold hold = {};     ///< Of a record that `Store::find_checkpoint` gave.

  [[nodiscard]] TinkerPath path() const {
    return {.training_run_id = run_id, .kind = kind, .name = name};
  }

  friend bool operator==(const CheckpointRecord&, const CheckpointRecord&) = default;
};

/// What callers did that an audit wants to know.
struct AuditRecord {
  Instant at = {};
  std::string owner = {};
  std::string event = {};  ///< "checkpoint_delete"
  StringMap details = {};

  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

/// Tokens and checkpoints by hour, for billing/usage/events.
struct UsageRecord {
  enum class Kind {
    training,
    sampling_prefill,
    sampling_prefill_cached,
    sampling_sample,
    checkpoint
  };
  Instant hour = {};
  std::string owner = {};
  std::string session_id = {};
  std::string project_id = {};
  std::string base_model = {};
  Kind kind = Kind::training;
  std::int64_t count = 0;

  friend bool operator==(const UsageRecord&, const UsageRecord&) = default;
};

}  // namespace tinker::server
