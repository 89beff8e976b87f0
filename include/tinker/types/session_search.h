#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/types/date_time.h"
#include "tinker/types/metadata.h"
#include "tinker/types/open_enum.h"
#include "tinker/types/session.h"

namespace tinker {

/// The caller's own sessions.
struct OwnSearchOwner {
  friend bool operator==(const OwnSearchOwner&, const OwnSearchOwner&) = default;
};

/// Every session the caller may see.
struct AccessibleSearchOwner {
  friend bool operator==(const AccessibleSearchOwner&, const AccessibleSearchOwner&) = default;
};

/// The sessions of 1 to 10 named users.
struct UserSearchOwner {
  std::vector<std::string> owner_urns = {};

  friend bool operator==(const UserSearchOwner&, const UserSearchOwner&) = default;
};

using SearchOwner = std::variant<OwnSearchOwner, AccessibleSearchOwner, UserSearchOwner>;

struct ActiveSessionStatusQuery {
  friend bool operator==(const ActiveSessionStatusQuery&,
                         const ActiveSessionStatusQuery&) = default;
};

struct CancelledSessionStatusQuery {
  friend bool operator==(const CancelledSessionStatusQuery&,
                         const CancelledSessionStatusQuery&) = default;
};

struct FailedSessionStatusQuery {
  friend bool operator==(const FailedSessionStatusQuery&,
                         const FailedSessionStatusQuery&) = default;
};

struct ClientFinishedSessionStatusQuery {
  /// Absent: any; else at least one.
  std::optional<std::vector<SessionFinishReason>> reasons = {};

  friend bool operator==(const ClientFinishedSessionStatusQuery&,
                         const ClientFinishedSessionStatusQuery&) = default;
};

using SessionStatusQuery = std::variant<ActiveSessionStatusQuery,
                                        CancelledSessionStatusQuery,
                                        FailedSessionStatusQuery,
                                        ClientFinishedSessionStatusQuery>;

/// Where the next page of a search begins.
struct SessionSearchCursor {
  DateTime last_created_at = {};  ///< Always with an offset.
  std::string last_session_id = {};

  friend bool operator==(const SessionSearchCursor&, const SessionSearchCursor&) = default;
};

/// POST sessions/search (PROTOCOL 9.46).
struct SessionSearchRequest {
  std::optional<std::string> session_id = {};
  std::optional<std::vector<std::string>> project_ids = {};  ///< Absent: every listable project.
  StringMap user_metadata = {};                              ///< Every pair must match.
  std::optional<std::string> display_name = {};  ///< Not empty; words found in any case and order.
  SearchOwner owner = {};
  /// Absent: any; else at least one.
  std::optional<std::vector<SessionStatusQuery>> statuses = {};
  std::int64_t limit = 50;  ///< 1 to 200.
  std::optional<SessionSearchCursor> cursor = {};

  friend bool operator==(const SessionSearchRequest&, const SessionSearchRequest&) = default;
};

struct SessionActive {
  friend bool operator==(const SessionActive&, const SessionActive&) = default;
};

struct SessionCancelled {
  std::optional<std::string> detail = {};

  friend bool operator==(const SessionCancelled&, const SessionCancelled&) = default;
};

struct ClientSessionFinishSuccess {
  friend bool operator==(const ClientSessionFinishSuccess&,
                         const ClientSessionFinishSuccess&) = default;
};

struct ClientSessionFinishErrored {
  friend bool operator==(const ClientSessionFinishErrored&,
                         const ClientSessionFinishErrored&) = default;
};

struct ClientSessionFinishInterrupted {
  friend bool operator==(const ClientSessionFinishInterrupted&,
                         const ClientSessionFinishInterrupted&) = default;
};

using ClientSessionFinishReason = std::variant<ClientSessionFinishSuccess,
                                               ClientSessionFinishErrored,
                                               ClientSessionFinishInterrupted,
                                               UnknownVariant>;

struct ClientSessionFinished {
  ClientSessionFinishReason reason = {};
  std::optional<std::string> detail = {};

  friend bool operator==(const ClientSessionFinished&, const ClientSessionFinished&) = default;
};

struct SessionFailedRequestReason {
  std::string request_id = {};
  std::string request_type = {};

  friend bool operator==(const SessionFailedRequestReason&,
                         const SessionFailedRequestReason&) = default;
};

struct SessionFailedTrainingRunReason {
  std::string training_run_id = {};

  friend bool operator==(const SessionFailedTrainingRunReason&,
                         const SessionFailedTrainingRunReason&) = default;
};

struct SessionFailedSamplingSessionReason {
  std::string sampling_session_id = {};

  friend bool operator==(const SessionFailedSamplingSessionReason&,
                         const SessionFailedSamplingSessionReason&) = default;
};

using SessionFailedReason = std::variant<SessionFailedRequestReason,
                                         SessionFailedTrainingRunReason,
                                         SessionFailedSamplingSessionReason,
                                         UnknownVariant>;

enum class SessionFailedCategory { user, internal };
template <>
inline constexpr std::array<std::string_view, 2> detail::kEnumNames<SessionFailedCategory> = {
    "user", "internal"};

struct SessionFailed {
  OpenEnum<SessionFailedCategory> category = {};
  SessionFailedReason reason = {};
  std::string message = {};

  friend bool operator==(const SessionFailed&, const SessionFailed&) = default;
};

using SessionStatus = std::
    variant<SessionFailed, SessionCancelled, ClientSessionFinished, SessionActive, UnknownVariant>;

struct SessionSummary {
  std::string session_id = {};
  DateTime created_at = {};
  std::string owner = {};
  std::string project_id = {};
  std::optional<SessionStatus> status = {};  ///< Absent: neither finished nor known to run.
  std::int64_t checkpoints_count = 0;
  std::optional<std::string> display_name = {};
  std::optional<StringMap> user_metadata = {};
  std::optional<std::int64_t> checkpoint_storage_bytes = {};

  friend bool operator==(const SessionSummary&, const SessionSummary&) = default;
};

struct SessionSearchResponse {
  std::vector<SessionSummary> sessions = {};            ///< Newest first.
  std::optional<SessionSearchCursor> next_cursor = {};  ///< Absent on the last page.

  friend bool operator==(const SessionSearchResponse&, const SessionSearchResponse&) = default;
};

}  // namespace tinker
