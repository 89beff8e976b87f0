#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tinker/types/date_time.h"
#include "tinker/types/json.h"

namespace tinker {

struct AuditLogEntry {
  DateTime timestamp = {};
  std::string event = {};         ///< "<resource>_<action>", e.g. "checkpoint_read".
  JsonObject event_details = {};  ///< Replaces the three members below.
  std::optional<std::string> model_id = {};
  std::optional<std::string> tinker_path = {};
  std::optional<std::string> purpose = {};

  friend bool operator==(const AuditLogEntry&, const AuditLogEntry&) = default;
};

/// GET audit (PROTOCOL 9.35).
struct AuditLogResponse {
  std::vector<AuditLogEntry> entries = {};

  friend bool operator==(const AuditLogResponse&, const AuditLogResponse&) = default;
};

}  // namespace tinker
