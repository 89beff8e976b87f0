#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/types/json.h"
#include "tinker/types/metadata.h"
#include "tinker/types/open_enum.h"

namespace tinker {

/// POST create_session (PROTOCOL 9.4).
struct CreateSessionRequest {
  std::vector<std::string> tags = {};
  std::optional<JsonObject> user_metadata = JsonObject();  ///< Use texts: answers carry no others.
  std::string sdk_version = {};
  std::optional<std::string> project_id = {};
  std::optional<std::string> display_name = {};

  friend bool operator==(const CreateSessionRequest&, const CreateSessionRequest&) = default;
};

struct CreateSessionResponse {
  std::optional<std::string> info_message = {};
  std::optional<std::string> warning_message = {};
  std::optional<std::string> error_message = {};
  std::string session_id = {};

  friend bool operator==(const CreateSessionResponse&, const CreateSessionResponse&) = default;
};

/// POST session_heartbeat (PROTOCOL 9.5).
struct SessionHeartbeatRequest {
  std::string session_id = {};

  friend bool operator==(const SessionHeartbeatRequest&, const SessionHeartbeatRequest&) = default;
};

struct SessionHeartbeatResponse {
  friend bool operator==(const SessionHeartbeatResponse&,
                         const SessionHeartbeatResponse&) = default;
};

enum class SessionFinishReason { success, errored, interrupted };
template <>
inline constexpr std::array<std::string_view, 3> detail::kEnumNames<SessionFinishReason> = {
    "success", "errored", "interrupted"};

/// POST sessions/{id}/finish (PROTOCOL 9.42).
struct FinishSessionRequest {
  SessionFinishReason reason = SessionFinishReason::success;
  std::optional<std::string> detail = {};  ///< Null is sent when absent.

  friend bool operator==(const FinishSessionRequest&, const FinishSessionRequest&) = default;
};

/// PUT sessions/{id}/project (PROTOCOL 9.33).
struct SetProjectRequest {
  std::string project_id = {};

  friend bool operator==(const SetProjectRequest&, const SetProjectRequest&) = default;
};

/// GET sessions (PROTOCOL 9.31).
struct ListSessionsResponse {
  std::vector<std::string> sessions = {};

  friend bool operator==(const ListSessionsResponse&, const ListSessionsResponse&) = default;
};

/// GET sessions/{id} (PROTOCOL 9.32).
struct GetSessionResponse {
  std::vector<std::string> training_run_ids = {};
  std::vector<std::string> sampler_ids = {};
  std::optional<StringMap> user_metadata = {};
  std::optional<std::string> display_name = {};

  friend bool operator==(const GetSessionResponse&, const GetSessionResponse&) = default;
};

enum class TraceExportStatus { pending, ready, failed };
template <>
inline constexpr std::array<std::string_view, 3> detail::kEnumNames<TraceExportStatus> = {
    "pending", "ready", "failed"};

/// GET sessions/{id}/trace_export (PROTOCOL 9.34).
struct SessionTraceExportPollResponse {
  OpenEnum<TraceExportStatus> status = {};
  std::optional<std::string> url = {};    ///< Set when ready.
  std::optional<std::string> error = {};  ///< Set when failed.

  friend bool operator==(const SessionTraceExportPollResponse&,
                         const SessionTraceExportPollResponse&) = default;
};

}  // namespace tinker
