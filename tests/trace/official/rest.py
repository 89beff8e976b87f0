"""Every call of RestClient and AdminClient."""

import asyncio
import datetime

from .common import *


def checkpoint():
    """A session with a run and a checkpoint, and its path."""
    service = tinker.ServiceClient()
    return service, trainer(service).save_state("first").result().path


def rest_runs():
    service, path = checkpoint()
    rest = tinker.RestClient()
    run = "session-1:train:0"
    rest.get_training_run(run).result()
    rest.get_training_run(run, access_scope="accessible").result()
    rest.get_training_run_by_tinker_path(path).result()
    rest.get_training_run_by_tinker_path(path, access_scope="accessible").result()
    rest.list_training_runs().result()
    rest.list_training_runs(limit=5, offset=1, access_scope="accessible", project_id="project 1").result()
    finish(service)


def rest_checkpoints():
    service, path = checkpoint()
    rest = tinker.RestClient()
    rest.list_checkpoints("session-1:train:0").result()
    rest.list_user_checkpoints().result()
    rest.list_user_checkpoints(limit=10, offset=2).result()
    rest.get_weights_info_by_tinker_path(path).result()
    rest.publish_checkpoint_from_tinker_path(path).result()
    rest.unpublish_checkpoint_from_tinker_path(path).result()
    rest.set_checkpoint_ttl_from_tinker_path(path, 7200).result()
    rest.set_checkpoint_ttl_from_tinker_path(path, None).result()
    copy = rest.copy_weights(path, "project-2").result()
    rest.delete_checkpoint_from_tinker_path(copy).result()
    rest.delete_checkpoint("session-1:train:0", "weights/first").result()
    finish(service)


def rest_sessions():
    service, _ = checkpoint()
    rest = tinker.RestClient()
    rest.get_session("session-1").result()
    rest.get_session("session-1", access_scope="accessible").result()
    rest.list_sessions().result()
    rest.list_sessions(limit=3, offset=4, access_scope="accessible").result()
    rest.assign_session_project("session-1", "project-9").result()
    rest.export_session_trace("session-1").result()
    finish(service)


def rest_search():
    rest = tinker.RestClient()
    rest.search_sessions(types.SessionSearchRequest()).result()
    rest.search_sessions(
        types.SessionSearchRequest(
            session_id="session-1",
            project_ids=["project-1", "project-2"],
            user_metadata={"team": "ml"},
            display_name="nightly",
            owner=types.AccessibleSearchOwner(),
            statuses=[
                types.ActiveSessionStatusQuery(),
                types.CancelledSessionStatusQuery(),
                types.FailedSessionStatusQuery(),
                types.ClientFinishedSessionStatusQuery(),
                types.ClientFinishedSessionStatusQuery(reasons=["success", "errored"]),
            ],
            limit=200,
            cursor=types.SessionSearchCursor(
                last_created_at=datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc),
                last_session_id="session-0",
            ),
        )
    ).result()
    owner = types.UserSearchOwner(owner_urns=["tml:organization_user:abc"])
    rest.search_sessions(types.SessionSearchRequest(owner=owner, limit=1)).result()


def rest_identity():
    rest = tinker.RestClient()
    rest.whoami().result()
    rest.list_sessions().result()


def rest_sampler():
    service = tinker.ServiceClient()
    sampler(service)
    tinker.RestClient().get_sampler("session-1:sample:0").result()
    finish(service)


def rest_copies():
    service, path = checkpoint()
    rest = tinker.RestClient()
    rest.copy_weights(path).result()
    rest.copy_weights(path, "project-2", ttl_seconds=3600, weights_access_token="tml-owner-key").result()
    service.copy_weights(path, ttl_seconds=7200).result()
    finish(service)


def rest_copy_retries():
    service, path = checkpoint()
    tinker.RestClient().copy_weights(path, "project-2").result()
    finish(service)


def rest_retries():
    rest = tinker.RestClient()
    rest.list_training_runs().result()
    rest.list_sessions().result()


def rest_errors():
    rest = tinker.RestClient()
    # Errors of the others, which give a plain future, are not reported (R14.10).
    expect_error(lambda: asyncio.run(rest.get_training_run_async("none")))
    rest.list_sessions().result()
    pause(0.3)


def rest_bad_arguments():
    rest = tinker.RestClient()
    rest.list_sessions().result()
    expect_error(lambda: rest.get_training_run_by_tinker_path("/tmp/weights").result())
    expect_error(lambda: rest.get_external_weights_urls("tinker://run/weights/first").result())


def rest_of_service():
    service = tinker.ServiceClient()
    service.get_server_capabilities()
    rest = service.create_rest_client()
    rest.list_sessions().result()
    sampler(service)
    finish(service)


def rest_two_keys():
    tinker.RestClient().list_sessions().result()
    tinker.RestClient().list_sessions().result()
    tinker.RestClient(api_key="tml-other-key").list_sessions().result()


def admin_calls():
    admin = tinker.AdminClient()
    admin.get_audit_log().result()
    admin.get_audit_log("checkpoints", datetime.date(2026, 1, 15)).result()
    for kind in ("projects", "teams", "organizations", "all"):
        admin.get_audit_log(kind).result()
    admin.get_billing_usage("2026-07-13T00:00:00Z", "2026-07-14T12:00:00+02:00").result()
    admin.get_current_checkpoint_storage_usage().result()
    admin.get_current_checkpoint_storage_usage("project-1").result()
