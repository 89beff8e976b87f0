#include "scripts.h"

namespace tinker::trace {
namespace {

using namespace std::chrono_literals;

const std::string kRun = "session-1:train:0";

/// Of one session.
struct Saved {
  ServiceClient service;
  std::string path;
};

Saved checkpoint() {
  const auto service = connect();
  return {service, trainer(service).save_state("first").get().value().path};
}

RestClient connect_rest() {
  return RestClient::connect().value();
}

void rest_runs() {
  const auto [service, path] = checkpoint();
  const auto rest = connect_rest();
  rest.get_training_run(kRun).get().value();
  rest.get_training_run(kRun, AccessScope::accessible).get().value();
  rest.get_training_run_by_tinker_path(path).get().value();
  rest.get_training_run_by_tinker_path(path, AccessScope::accessible).get().value();
  rest.list_training_runs().get().value();
  rest.list_training_runs({.limit = 5,
                           .offset = 1,
                           .access_scope = AccessScope::accessible,
                           .project_id = "project 1"})
      .get()
      .value();
  finish(service);
}

void rest_checkpoints() {
  const auto [service, path] = checkpoint();
  const auto rest = connect_rest();
  rest.list_checkpoints(kRun).get().value();
  rest.list_user_checkpoints().get().value();
  rest.list_user_checkpoints({.limit = 10, .offset = 2}).get().value();
  rest.get_weights_info_by_tinker_path(path).get().value();
  rest.publish_checkpoint_from_tinker_path(path).get().value();
  rest.unpublish_checkpoint_from_tinker_path(path).get().value();
  rest.set_checkpoint_ttl_from_tinker_path(path, 7200).get().value();
  rest.set_checkpoint_ttl_from_tinker_path(path, std::nullopt).get().value();
  const auto copy = rest.copy_weights(path, {.destination_project_id = "project-2"}).get().value();
  rest.delete_checkpoint_from_tinker_path(copy).get().value();
  rest.delete_checkpoint(kRun, "weights/first").get().value();
  finish(service);
}

void rest_sessions() {
  const auto [service, path] = checkpoint();
  const auto rest = connect_rest();
  rest.get_session("session-1").get().value();
  rest.get_session("session-1", AccessScope::accessible).get().value();
  rest.list_sessions().get().value();
  rest.list_sessions({.limit = 3, .offset = 4, .access_scope = AccessScope::accessible})
      .get()
      .value();
  rest.assign_session_project("session-1", "project-9").get().value();
  rest.export_session_trace("session-1").get().value();
  finish(service);
}

void rest_search() {
  const auto rest = connect_rest();
  rest.search_sessions({}).get().value();
  const std::vector<SessionFinishReason> reasons = {SessionFinishReason::success,
                                                    SessionFinishReason::errored};
  const SessionSearchRequest all_of_it = {
      .session_id = "session-1",
      .project_ids = {{"project-1", "project-2"}},
      .user_metadata = {{"team", "ml"}},
      .display_name = "nightly",
      .owner = AccessibleSearchOwner(),
      .statuses = {{ActiveSessionStatusQuery(),
                    CancelledSessionStatusQuery(),
                    FailedSessionStatusQuery(),
                    ClientFinishedSessionStatusQuery(),
                    ClientFinishedSessionStatusQuery{.reasons = reasons}}},
      .limit = 200,
      .cursor = SessionSearchCursor{.last_created_at =
                                        DateTime::parse("2026-01-02T03:04:05.678901Z").value(),
                                    .last_session_id = "session-0"},
  };
  rest.search_sessions(all_of_it).get().value();
  rest.search_sessions(
          {.owner = UserSearchOwner{.owner_urns = {"tml:organization_user:abc"}}, .limit = 1})
      .get()
      .value();
}

void rest_identity() {
  const auto rest = connect_rest();
  rest.whoami().get().value();
  rest.list_sessions().get().value();
}

void rest_sampler() {
  const auto service = connect();
  sampler(service);
  connect_rest().get_sampler("session-1:sample:0").get().value();
  finish(service);
}

void rest_copies() {
  const auto [service, path] = checkpoint();
  const auto rest = connect_rest();
  rest.copy_weights(path).get().value();
  rest.copy_weights(path,
                    {.destination_project_id = "project-2",
                     .ttl_seconds = 3600,
                     .weights_access_token = Secret("tml-owner-key")})
      .get()
      .value();
  service.copy_weights(path, {.ttl_seconds = 7200}).get().value();
  finish(service);
}

void rest_copy_retries() {
  const auto [service, path] = checkpoint();
  connect_rest().copy_weights(path, {.destination_project_id = "project-2"}).get().value();
  finish(service);
}

void rest_retries() {
  const auto rest = connect_rest();
  rest.list_training_runs().get().value();
  rest.list_sessions().get().value();
}

void rest_errors() {
  const auto rest = connect_rest();
  expect_error(rest.get_training_run("none").get());
  rest.list_sessions().get().value();
  pause(300ms);
}

void rest_bad_arguments() {
  const auto rest = connect_rest();
  rest.list_sessions().get().value();
  expect_error(rest.get_training_run_by_tinker_path("/tmp/weights").get());
  expect_error(rest.get_external_weights_urls("tinker://run/weights/first").get());
}

void rest_of_service() {
  const auto service = connect();
  service.get_server_capabilities().get().value();
  const auto rest = service.create_rest_client();
  rest.list_sessions().get().value();
  sampler(service);
  finish(service);
}

void rest_two_keys() {
  const auto runtime = Runtime::start();
  const auto list = [](RestOptions options) {
    RestClient::connect(std::move(options)).value().list_sessions().get().value();
  };
  list({.runtime = runtime});
  list({.runtime = runtime});
  list({.api_key = Secret("tml-other-key"), .runtime = runtime});
}

void admin_calls() {
  const auto admin = AdminClient::connect().value();
  admin.get_audit_log().get().value();
  admin.get_audit_log({.event_type = AuditEventType::checkpoints, .day = "2026-01-15"})
      .get()
      .value();
  for (const auto kind : {AuditEventType::projects,
                          AuditEventType::teams,
                          AuditEventType::organizations,
                          AuditEventType::all}) {
    admin.get_audit_log({.event_type = kind}).get().value();
  }
  admin
      .get_billing_usage(DateTime::parse("2026-07-13T00:00:00Z").value(),
                         DateTime::parse("2026-07-14T12:00:00+02:00").value())
      .get()
      .value();
  admin.get_current_checkpoint_storage_usage().get().value();
  admin.get_current_checkpoint_storage_usage("project-1").get().value();
}

}  // namespace

std::vector<Script> rest_scripts() {
  return {
      {"rest_runs", rest_runs},
      {"rest_checkpoints", rest_checkpoints},
      {"rest_sessions", rest_sessions},
      {"rest_search", rest_search},
      {"rest_identity", rest_identity},
      {"rest_sampler", rest_sampler},
      {"rest_copies", rest_copies},
      {"rest_copy_retries", rest_copy_retries},
      {"rest_retries", rest_retries},
      {"rest_errors", rest_errors},
      {"rest_bad_arguments", rest_bad_arguments},
      {"rest_of_service", rest_of_service},
      {"rest_two_keys", rest_two_keys},
      {"admin_calls", admin_calls},
  };
}

}  // namespace tinker::trace
