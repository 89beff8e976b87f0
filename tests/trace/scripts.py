"""The scripts by name, and what the recording server does differently in each (tests/support/tinker_server/rules.py).

The scripts themselves are in official/ (Python) and *_scripts.cc (C++), under the same names.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Script:
    config: dict = dataclasses.field(default_factory=dict)
    dynamic_config: dict = dataclasses.field(default_factory=dict)
    rules: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)
    # seq_ids of one batch whose parts are sent at once, in any order (R7.7)
    unordered: tuple = ()
    # The official side needs torch, which its pinned environment lacks: its trace is in golden/
    needs_torch: bool = False


def rule(path, status=200, body=None, **others):
    answer = {} if others.keys() & {"drop", "lose", "wait"} else {"status": status, "body": {} if body is None else body}
    return {"path": path, **answer, **others}


def soon(path, status, headers=None, **others):
    """An answer that asks for a retry in 10 ms."""
    return rule(path, status, headers={"retry-after-ms": "10", **(headers or {})}, **others)


def result(request_type, **others):
    return rule("/retrieve_future", type=request_type, **others)


ONE_PER_CHUNK = {"fwdbwd_max_chunk_len": 1}
# What comes next has a connection of its own.
LAST = {"Connection": "close"}
SERIAL = {"parallel_fwdbwd_chunks": False}
TRY_AGAIN = {"type": "try_again", "request_id": "x", "queue_state": "active", "queue_state_reason": None}
METADATA = {"status": "complete_metadata", "request_id": "x", "response_payload_size": 100}
STEPPED = {"metrics": {}}

SCRIPTS = {
    # Sessions.
    "session_start_and_end": Script(),
    "session_defaults": Script(),
    "session_environment": Script(
        environment={
            "TINKER_TAGS": "nightly, ml,,nightly",
            "TINKER_PROJECT_ID": "project-2",
            "CLOUDFLARE_ACCESS_CLIENT_ID": "access-id",
            "CLOUDFLARE_ACCESS_CLIENT_SECRET": "access-secret",
        }
    ),
    "session_with_block": Script(),
    "session_with_block_error": Script(),
    "session_never_begun": Script(),
    "session_tokens": Script(config={"pjwt_auth_enabled": True}),
    "session_start_up_retries": Script(
        rules=(
            soon("/client/config", 503),
            rule("/client/dynamic_config", 404),
            soon("/create_session", 429, times=2),
            soon("/create_sampling_session", 500),
        )
    ),
    "session_refused": Script(rules=(rule("/create_session", 403, {"detail": "no"}),)),
    "session_finish_retries": Script(rules=(soon("/finish", 503, LAST), rule("/finish", drop=True))),
    "session_finish_refused": Script(rules=(rule("/finish", 404, {"detail": "no session"}),)),
    "session_without_telemetry": Script(environment={"TINKER_TELEMETRY": "0"}),
    # Training.
    "train_one_chunk": Script(),
    "train_two_chunks_parallel": Script(config=ONE_PER_CHUNK),
    "train_five_chunks_parallel": Script(config=ONE_PER_CHUNK, unordered=(2, 3, 4, 5)),
    "train_two_chunks_serial": Script(config={**ONE_PER_CHUNK, **SERIAL}),
    "train_five_chunks_serial": Script(config={**ONE_PER_CHUNK, **SERIAL}),
    "train_chunks_by_bytes": Script(config={"fwdbwd_max_chunk_bytes_count": 100, **SERIAL}),
    "train_compressed": Script(config={"proto_compress_fwdbwd": True}),
    "train_forward": Script(),
    "train_model_options": Script(),
    "train_losses": Script(),
    "train_inputs": Script(),
    "train_provenance": Script(),
    "train_optimizers": Script(rules=(result("OptimStep", body=STEPPED, times=-1),)),
    "train_submission_retries": Script(
        rules=(
            soon("/create_model", 503),
            soon("/forward_backward", 500),
            soon("/forward_backward", 429),
            soon("/forward_backward", 408),
            soon("/forward_backward", 409, LAST),
            rule("/forward_backward", drop=True),
            rule("/optim_step", 418, headers={"x-should-retry": "true", "retry-after-ms": "10"}),
        )
    ),
    "train_stale_connection": Script(rules=(rule("/forward_backward", drop=True),)),
    "train_submission_rounds": Script(
        rules=(rule("/forward_backward", 503, headers={"x-should-retry": "false"}),)
    ),
    "train_poll_retries": Script(
        rules=(
            result("ForwardBackward", status=408, body=TRY_AGAIN),
            result("ForwardBackward", status=500),
            result("ForwardBackward", body=TRY_AGAIN),
            result("ForwardBackward", status=400, body={"detail": "odd"}),
            result("ForwardBackward", body=METADATA),
            result("ForwardBackward", status=503),
            result("OptimStep", status=429),
        )
    ),
    "train_poll_bad_requests": Script(
        rules=(result("ForwardBackward", status=400, body={"detail": "odd"}, times=4),)
    ),
    "train_poll_gone": Script(rules=(result("ForwardBackward", status=410, body={"detail": "gone"}),)),
    "train_poll_refused": Script(rules=(result("ForwardBackward", status=404, body={"detail": "no request"}),)),
    "train_failed_future": Script(),
    "train_failed_server": Script(
        rules=(result("OptimStep", body={"error": "out of memory", "category": "server"}),)
    ),
    "train_submission_refused": Script(rules=(rule("/forward_backward", 422, {"detail": "no"}),)),
    "train_model_refused": Script(rules=(rule("/create_model", 402, {"detail": "no credit"}),)),
    # Losses.
    "loss_of_a_function": Script(needs_torch=True),
    "loss_of_two_chunks": Script(config={**ONE_PER_CHUNK, **SERIAL}, needs_torch=True),
    "loss_handle_client_side": Script(needs_torch=True),
    "loss_handle_server_side": Script(config={"custom_loss_server_side": True}, needs_torch=True),
    "loss_upload_retries": Script(
        config={"custom_loss_server_side": True},
        rules=(soon("/create_custom_loss", 503), result("CreateCustomLoss", body=TRY_AGAIN)),
        needs_torch=True,
    ),
    # Weights.
    "save_and_load": Script(),
    "save_for_samplers": Script(),
    "save_and_sample": Script(),
    "save_external": Script(),
    "save_conflict": Script(rules=(rule("/save_weights", 409, {"detail": "busy"}),)),
    "save_retries": Script(rules=(rule("/save_weights", 503),)),
    "save_lost_answer": Script(
        rules=(rule("/save_weights", lose=True), rule("/save_weights", 409, {"detail": "exists"}))
    ),
    "save_ephemeral_retries": Script(rules=(rule("/save_weights_for_sampler", 503),)),
    "save_failed": Script(),
    "from_state": Script(),
    "from_state_with_optimizer": Script(),
    "from_state_of_others": Script(),
    "from_state_of_others_by_token": Script(config={"pjwt_auth_enabled": True}),
    "from_state_by_load": Script(config={"create_model_via_load_weights": True}),
    "from_state_missing": Script(),
    # Sampling.
    "sample_parameters": Script(),
    "sample_readouts": Script(),
    "sample_sparse_targets": Script(),
    "sample_images": Script(),
    "sample_client_options": Script(),
    "sample_many": Script(),
    "sample_submission_rounds": Script(rules=(soon("/asample", 503),)),
    "sample_backs_off": Script(rules=(rule("/asample", 429),)),
    "sample_unpaid": Script(rules=(rule("/asample", 402),)),
    "sample_poll_retries": Script(
        rules=(
            result("Sample", status=408, body=TRY_AGAIN),
            result("Sample", body=TRY_AGAIN),
            result("Sample", status=502, headers=LAST),
            result("Sample", drop=True),
        )
    ),
    "sample_starts_again": Script(rules=(result("Sample", status=410, body={"detail": "gone"}),)),
    "sample_once_only": Script(
        config={"sample_no_retries": True}, rules=(result("Sample", status=410, body={"detail": "gone"}),)
    ),
    "sample_failed": Script(rules=(result("Sample", body={"error": "prompt too long", "category": "user"}),)),
    "sample_refused": Script(rules=(rule("/asample", 400, {"detail": "prompt too long"}),)),
    "sample_bad_arguments": Script(),
    "sample_metadata_first": Script(rules=(result("Sample", body=METADATA),)),
    "sample_batched": Script(config={"sample_use_retrieve_futures": True}),
    "sample_batched_failed": Script(
        config={"sample_use_retrieve_futures": True},
        rules=(
            rule(
                "/retrieve_futures",
                body={"completions": [{"state": "failed", "request_id": "session-1:sample:0:0"}], "cursor": 1},
            ),
            result("Sample", body={"error": "prompt too long", "category": "user"}),
        ),
    ),
    "sample_batched_retries": Script(
        config={"sample_use_retrieve_futures": True},
        rules=(rule("/retrieve_futures", 503), rule("/retrieve_futures", 400, {"detail": "odd"})),
    ),
    "sample_cancelled": Script(
        dynamic_config={"sample_cancel_enabled": True}, rules=(result("Sample", wait=2), rule("/cancel_future", 404))
    ),
    "sample_cancelled_silently": Script(rules=(result("Sample", wait=2),)),
    "sampler_handle": Script(),
    "sampler_handle_joins": Script(
        config={"sample_join_sampling_session": True}, rules=(soon("/join_sampling_session", 503),)
    ),
    "sampler_missing": Script(),
    # What is on the server.
    "rest_runs": Script(),
    "rest_checkpoints": Script(),
    "rest_sessions": Script(),
    "rest_search": Script(),
    "rest_identity": Script(config={"pjwt_auth_enabled": True}),
    "rest_sampler": Script(),
    "rest_copies": Script(environment={"TINKER_PROJECT_ID": "project-1"}),
    "rest_copy_retries": Script(
        rules=(
            soon("/copy_weights", 503),
            rule("/copy_weights", 503, headers={"x-should-retry": "false"}),
        )
    ),
    "rest_retries": Script(
        rules=(soon("/training_runs", 500), soon("/training_runs", 429), soon("/sessions", 503))
    ),
    "rest_errors": Script(),
    "rest_bad_arguments": Script(),
    "rest_of_service": Script(),
    "rest_two_keys": Script(),
    "admin_calls": Script(),
}
