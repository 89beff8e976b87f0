#include "tinker/admin_client.h"

#include <utility>

#include "client/rest.h"

namespace tinker {

Result<AdminClient> AdminClient::connect() {
  return connect(RestOptions());
}

Result<AdminClient> AdminClient::connect(RestOptions options) {
  TINKER_TRY(auto state, client::connect_rest(std::move(options), session::Environment()));
  return AdminClient(std::move(state));
}

AdminClient AdminClient::with(CallOptions options) const {
  AdminClient copy = *this;
  copy.options_ = std::move(options);
  return copy;
}

Future<AuditLogResponse> AdminClient::get_audit_log() const {
  return get_audit_log(AuditLogQuery());
}

Future<AuditLogResponse> AdminClient::get_audit_log(AuditLogQuery query) const {
  return client::start_get<AuditLogResponse>(
      *state_,
      options_,
      {.method = "get_audit_log",
       .call = {.path = "/api/v1/audit", .pool = api::PoolKind::rest_support_redirect}},
      query);
}

Future<BillingUsageResponse> AdminClient::get_billing_usage(DateTime starting_on,
                                                            DateTime ending_before) const {
  return client::start_get<BillingUsageResponse>(
      *state_,
      options_,
      {.method = "get_billing_usage", .call = {.path = "/api/v1/billing/usage/events"}},
      GetBillingUsageRequest{.starting_on = starting_on, .ending_before = ending_before});
}

Future<CurrentCheckpointStorageUsageResponse> AdminClient::get_current_checkpoint_storage_usage()
    const {
  return get_current_checkpoint_storage_usage(std::string());
}

Future<CurrentCheckpointStorageUsageResponse> AdminClient::get_current_checkpoint_storage_usage(
    std::string project_id) const {
  GetCurrentCheckpointStorageUsageRequest request;
  if (!project_id.empty()) request.project_id = std::move(project_id);
  return client::start_get<CurrentCheckpointStorageUsageResponse>(
      *state_,
      options_,
      {.method = "get_current_checkpoint_storage_usage",
       .call = {.path = "/api/v1/billing/usage/checkpoints/current"}},
      request);
}

}  // namespace tinker
