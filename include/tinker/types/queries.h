#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tinker/types/open_enum.h"

namespace tinker {

// Requests that travel as a query string (PROTOCOL 4.1).

/// Whose things to list.
enum class AccessScope { owned, accessible };
template <>
inline constexpr std::array<std::string_view, 2> detail::kEnumNames<AccessScope> = {"owned",
                                                                                    "accessible"};

/// GET training_runs (PROTOCOL 9.22).
struct ListTrainingRunsQuery {
  std::int64_t limit = 20;
  std::int64_t offset = 0;
  AccessScope access_scope = AccessScope::owned;
  std::optional<std::string> project_id = {};

  friend bool operator==(const ListTrainingRunsQuery&, const ListTrainingRunsQuery&) = default;
};

/// GET training_runs/{id} and sessions/{id} (PROTOCOL 9.23, 9.32).
struct AccessQuery {
  AccessScope access_scope = AccessScope::owned;

  friend bool operator==(const AccessQuery&, const AccessQuery&) = default;
};

/// GET checkpoints (PROTOCOL 9.30).
struct ListCheckpointsQuery {
  std::int64_t limit = 100;
  std::int64_t offset = 0;

  friend bool operator==(const ListCheckpointsQuery&, const ListCheckpointsQuery&) = default;
};

/// GET sessions (PROTOCOL 9.31).
struct ListSessionsQuery {
  std::int64_t limit = 20;
  std::int64_t offset = 0;
  AccessScope access_scope = AccessScope::owned;

  friend bool operator==(const ListSessionsQuery&, const ListSessionsQuery&) = default;
};

enum class AuditEventType { all, checkpoints, projects, teams, organizations };
template <>
inline constexpr std::array<std::string_view, 5> detail::kEnumNames<AuditEventType> = {
    "all", "checkpoints", "projects", "teams", "organizations"};

/// GET audit (PROTOCOL 9.35).
struct AuditLogQuery {
  AuditEventType event_type = AuditEventType::all;
  std::optional<std::string> day = {};  ///< "2026-01-15", UTC; absent: today.

  friend bool operator==(const AuditLogQuery&, const AuditLogQuery&) = default;
};

}  // namespace tinker
