#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tinker/types/date_time.h"
#include "tinker/types/metadata.h"

namespace tinker {

/// GET billing/usage/events (PROTOCOL 9.36): a query string, hours in UTC, at most 14 days.
struct GetBillingUsageRequest {
  DateTime starting_on = {};
  DateTime ending_before = {};

  friend bool operator==(const GetBillingUsageRequest&, const GetBillingUsageRequest&) = default;
};

struct TrainingBillingEvent {
  std::int64_t token_count = 0;

  friend bool operator==(const TrainingBillingEvent&, const TrainingBillingEvent&) = default;
};

struct SamplingPrefillBillingEvent {
  bool cached = false;
  std::int64_t token_count = 0;

  friend bool operator==(const SamplingPrefillBillingEvent&,
                         const SamplingPrefillBillingEvent&) = default;
};

struct SamplingSampleBillingEvent {
  std::int64_t token_count = 0;

  friend bool operator==(const SamplingSampleBillingEvent&,
                         const SamplingSampleBillingEvent&) = default;
};

struct CheckpointBillingEvent {
  std::int64_t count = 0;

  friend bool operator==(const CheckpointBillingEvent&, const CheckpointBillingEvent&) = default;
};

struct StorageBillingEvent {
  double gigabyte_hours = 0.0;

  friend bool operator==(const StorageBillingEvent&, const StorageBillingEvent&) = default;
};

using BillingEventInfo = std::variant<TrainingBillingEvent,
                                      SamplingPrefillBillingEvent,
                                      SamplingSampleBillingEvent,
                                      CheckpointBillingEvent,
                                      StorageBillingEvent,
                                      UnknownVariant>;

struct BillingUsageEvent {
  DateTime bucket_start = {};
  DateTime bucket_end = {};
  std::optional<std::string> base_model = {};
  std::optional<std::string> user_id = {};
  std::optional<std::string> user_name = {};
  std::optional<std::string> session_id = {};
  std::optional<std::string> project_id = {};
  std::optional<double> estimated_cost_usd = {};
  std::optional<double> effective_rate_usd_per_million_tokens = {};
  std::optional<double> effective_rate_usd_per_gigabyte_month = {};
  BillingEventInfo event_info = {};

  friend bool operator==(const BillingUsageEvent&, const BillingUsageEvent&) = default;
};

struct BillingUsageSession {
  std::optional<StringMap> user_metadata = {};

  friend bool operator==(const BillingUsageSession&, const BillingUsageSession&) = default;
};

struct BillingUsageResponse {
  std::vector<BillingUsageEvent> data = {};
  std::map<std::string, BillingUsageSession, std::less<>> sessions = {};  ///< By session id.
  std::optional<DateTime> cost_data_through = {};

  friend bool operator==(const BillingUsageResponse&, const BillingUsageResponse&) = default;
};

/// GET billing/usage/checkpoints/current (PROTOCOL 9.47): a query string.
struct GetCurrentCheckpointStorageUsageRequest {
  std::optional<std::string> project_id = {};  ///< Absent: the whole organization.

  friend bool operator==(const GetCurrentCheckpointStorageUsageRequest&,
                         const GetCurrentCheckpointStorageUsageRequest&) = default;
};

struct CurrentCheckpointStorageUsageItem {
  std::optional<std::string> project_id = {};
  std::optional<std::string> org_user_urn = {};
  std::optional<std::string> user_email = {};
  std::optional<std::string> user_name = {};
  std::int64_t checkpoint_count = 0;
  std::int64_t size_bytes = 0;
  double size_gigabytes = 0.0;
  std::optional<double> estimated_monthly_cost_usd = {};

  friend bool operator==(const CurrentCheckpointStorageUsageItem&,
                         const CurrentCheckpointStorageUsageItem&) = default;
};

struct CurrentCheckpointStorageUsageResponse {
  std::optional<double> effective_rate_usd_per_gigabyte_month = {};
  std::vector<CurrentCheckpointStorageUsageItem> data = {};

  friend bool operator==(const CurrentCheckpointStorageUsageResponse&,
                         const CurrentCheckpointStorageUsageResponse&) = default;
};

}  // namespace tinker
