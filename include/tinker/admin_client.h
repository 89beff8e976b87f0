#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tinker/rest_client.h"

namespace tinker {

/// What administrators of an organization may see. Copies are the same client.
///
/// Thread-safe.
class AdminClient {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  static Result<AdminClient> connect();
  static Result<AdminClient> connect(RestOptions options);

  /// This client with other options for its calls, e.g. a deadline.
  [[nodiscard]] AdminClient with(CallOptions options) const;

  /// What happened today, UTC.
  Future<AuditLogResponse> get_audit_log() const;
  Future<AuditLogResponse> get_audit_log(AuditLogQuery query) const;
  /// Usage by the hour, in UTC; at most 14 days.
  Future<BillingUsageResponse> get_billing_usage(DateTime starting_on,
                                                 DateTime ending_before) const;
  /// Of the whole organization, or of one project.
  Future<CurrentCheckpointStorageUsageResponse> get_current_checkpoint_storage_usage() const;
  Future<CurrentCheckpointStorageUsageResponse> get_current_checkpoint_storage_usage(
      std::string project_id) const;
  // NOLINTEND(modernize-use-nodiscard)

  /// For the library itself.
  explicit AdminClient(std::shared_ptr<const client::RestState> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const client::RestState> state_;
  CallOptions options_ = {};
};

}  // namespace tinker
