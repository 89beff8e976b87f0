#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/types/date_time.h"
#include "tinker/types/json.h"
#include "tinker/types/open_enum.h"

namespace tinker {

enum class EventType { session_start, session_end, unhandled_exception, generic_event };
template <>
inline constexpr std::array<std::string_view, 4> detail::kEnumNames<EventType> = {
    "SESSION_START", "SESSION_END", "UNHANDLED_EXCEPTION", "GENERIC_EVENT"};

enum class Severity { debug, info, warning, error, critical };
template <>
inline constexpr std::array<std::string_view, 5> detail::kEnumNames<Severity> = {
    "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"};

struct SessionStartEvent {
  EventType event = EventType::session_start;
  std::string event_id = {};
  std::int64_t event_session_index = 0;
  Severity severity = Severity::info;
  DateTime timestamp = {};

  friend bool operator==(const SessionStartEvent&, const SessionStartEvent&) = default;
};

struct SessionEndEvent {
  std::string duration = {};  ///< As the official SDK prints it: "0:00:12.500000".
  EventType event = EventType::session_end;
  std::string event_id = {};
  std::int64_t event_session_index = 0;
  Severity severity = Severity::info;
  DateTime timestamp = {};

  friend bool operator==(const SessionEndEvent&, const SessionEndEvent&) = default;
};

struct UnhandledExceptionEvent {
  std::string error_message = {};
  std::string error_type = {};
  EventType event = EventType::unhandled_exception;
  std::string event_id = {};
  std::int64_t event_session_index = 0;
  Severity severity = Severity::error;
  DateTime timestamp = {};
  std::optional<std::string> traceback = {};

  friend bool operator==(const UnhandledExceptionEvent&, const UnhandledExceptionEvent&) = default;
};

struct GenericEvent {
  EventType event = EventType::generic_event;
  std::string event_id = {};
  std::string event_name = {};
  std::int64_t event_session_index = 0;
  Severity severity = Severity::info;
  DateTime timestamp = {};
  JsonObject event_data = {};

  friend bool operator==(const GenericEvent&, const GenericEvent&) = default;
};

using TelemetryEvent =
    std::variant<SessionStartEvent, SessionEndEvent, UnhandledExceptionEvent, GenericEvent>;

/// POST telemetry (PROTOCOL 9.6).
struct TelemetrySendRequest {
  std::vector<TelemetryEvent> events = {};
  std::string platform = {};
  std::string sdk_version = {};
  std::string session_id = {};
  std::string process_uuid = {};

  friend bool operator==(const TelemetrySendRequest&, const TelemetrySendRequest&) = default;
};

/// {"status": "accepted"}.
struct TelemetryResponse {
  friend bool operator==(const TelemetryResponse&, const TelemetryResponse&) = default;
};

}  // namespace tinker
