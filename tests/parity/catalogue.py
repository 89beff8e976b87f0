"""The wire types under test and the official classes they stand for.

The table is written out by hand on purpose: a type that the tool forgets, adds or files under another
kind must fail here, and a table derived from the tool itself could not notice.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass

import pydantic

REQUESTS = """
client_config_request copy_weights_request create_custom_loss_request create_model_request
create_sampling_session_request create_session_request forward_backward_request
future_retrieve_request futures_retrieve_request get_billing_usage_request
get_current_checkpoint_storage_usage_request get_info_request join_sampling_session_request
load_weights_request optim_step_request sample_request save_weights_external_request
save_weights_for_sampler_request save_weights_request session_heartbeat_request
session_search_request telemetry_send_request unload_model_request
""".split()

RESPONSES = """
audit_log_response auth_token_response billing_usage_response checkpoints_list_response
client_config_response client_dynamic_config_response copy_weights_response
create_custom_loss_response create_model_response create_sampling_session_response
create_session_response current_checkpoint_storage_usage_response external_weights_urls_response
forward_backward_output futures_retrieve_response get_info_response get_sampler_response
get_server_capabilities_response get_session_response health_response
join_sampling_session_response list_sessions_response load_weights_response optim_step_response
request_failed_response sample_response save_weights_external_response
save_weights_external_response_internal save_weights_for_sampler_response
save_weights_for_sampler_response_internal save_weights_response self_api_key_response
session_heartbeat_response session_search_response session_trace_export_poll_response
telemetry_response training_run training_runs_response try_again_response unload_model_response
untyped_api_future weights_info_response
""".split()

REQUEST_VALUES = """
accessible_search_owner active_session_status_query adam_optimizer_config adam_params
cancelled_session_status_query client_finished_session_status_query custom_loss_graph
custom_loss_input custom_loss_node datum dimuon_optimizer_config dimuon_params dmel_chunk
encoded_text_chunk failed_session_status_query generic_event image_asset_pointer_chunk image_chunk
lora_config model_input own_search_owner sampling_params sampling_session_futures_target
session_end_event session_search_cursor session_start_event tensor_data unhandled_exception_event
user_search_owner
""".split()

RESPONSE_VALUES = """
audit_log_entry billing_usage_event billing_usage_session checkpoint checkpoint_billing_event
client_session_finish_errored client_session_finish_interrupted client_session_finish_success
client_session_finished current_checkpoint_storage_usage_item cursor future_failed future_finished
model_data sampling_prefill_billing_event sampling_sample_billing_event session_active
session_cancelled session_failed session_failed_request_reason
session_failed_sampling_session_reason session_failed_training_run_reason session_summary
storage_billing_event supported_model training_billing_event
""".split()

ENCODINGS = {
    "forward_backward_request": "proto",
    "forward_backward_output": "proto",
    "sample_response": "proto",
    "datum": "proto",
    "tensor_data": "both",
}

# Official classes that have no wire type of their own, with the reason.
NOT_ON_THE_WIRE = {
    "checkpoint_archive_url_response": "removed in 0.36.0",
    "forward_backward_input": "travels inside forward_backward_request",
    "forward_request": "sent as forward_backward_request with forward_only",
    "optim_params_base": "arm of optim_step_request for any optimizer family",
    "optimizer_config_base": "arm of the optimizer_config members for any optimizer family",
    "parsed_checkpoint_tinker_path": "a parser's result, never sent",
    "prompt_alt_tokens": "travels inside sample_response",
    "prompt_provenance_span": "travels inside datum",
    "sampled_provenance_span": "travels inside datum",
    "sampled_sequence": "travels inside sample_response",
    "telemetry_batch": "same members as telemetry_send_request, never sent",
    "topk_logprobs": "travels inside sample_response",
    "topk_prompt_logprobs": "travels inside sample_response (0.25.0)",
    "whoami_response": "built by the client from a token's claims, never sent",
}

# Classes outside tinker.types.
ELSEWHERE = {
    "session_trace_export_poll_response": (
        "tinker.lib.public_interfaces.rest_client",
        "_SessionTraceExportPollResponse",
    ),
    "self_api_key_response": ("tinker.cli.auth_api", "SelfApiKeyResponse"),
}


@dataclass(frozen=True)
class WireType:
    """One row of the table; `side` says whose strictness rules hold for a value."""

    name: str
    kind: str  # request, response or value, as `tinker wire --list` prints it
    side: str  # request or response
    encoding: str  # json, proto or both


def wire_types() -> dict[str, WireType]:
    """All types by name, in alphabetical order."""
    groups = [
        (REQUESTS, "request", "request"),
        (RESPONSES, "response", "response"),
        (REQUEST_VALUES, "value", "request"),
        (RESPONSE_VALUES, "value", "response"),
    ]
    rows = [
        WireType(name, kind, side, ENCODINGS.get(name, "json"))
        for names, kind, side in groups
        for name in names
    ]
    return {row.name: row for row in sorted(rows, key=lambda row: row.name)}


def snake_case(class_name: str) -> str:
    """`UntypedAPIFuture` -> `untyped_api_future`, `_Private` -> `private`."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", class_name.lstrip("_"))
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()


def _is_wire_class(candidate: object) -> bool:
    if not inspect.isclass(candidate) or not candidate.__module__.startswith("tinker"):
        return False
    if candidate.__name__ in ("StrictBase", "BaseModel", "GenericModel"):
        return False
    return issubclass(candidate, pydantic.BaseModel) or dataclasses.is_dataclass(candidate)


def official_classes() -> dict[str, type]:
    """Every class of the installed package that describes wire data, by snake-case name.

    Where a name has a data class for users and a model for JSON (TensorData, Datum), the model wins,
    because it is the one that states the JSON form.
    """
    types = importlib.import_module("tinker.types")
    found: dict[str, type] = {}
    for info in pkgutil.walk_packages(types.__path__, "tinker.types."):
        for candidate in vars(importlib.import_module(info.name)).values():
            if not _is_wire_class(candidate):
                continue
            name = snake_case(candidate.__name__)
            if name not in found or issubclass(candidate, pydantic.BaseModel):
                found[name] = candidate
    for name, (module, class_name) in ELSEWHERE.items():
        try:
            found[name] = getattr(importlib.import_module(module), class_name)
        except (ImportError, AttributeError):
            continue  # an older release
    return found


def list_problems(listing: str) -> list[str]:
    """How the output of `tinker wire --list` differs from the table."""
    table = {row.name: (row.kind, row.encoding) for row in wire_types().values()}
    listed: dict[str, tuple[str, ...]] = {}
    problems = []
    for line in listing.splitlines():
        columns = line.split()
        if len(columns) != 3:
            problems.append(f"not three columns: {line!r}")
            continue
        if columns[0] in listed:
            problems.append(f"listed twice: {columns[0]}")
        listed[columns[0]] = tuple(columns[1:])
    problems += [f"missing type {name}" for name in sorted(table.keys() - listed.keys())]
    problems += [f"extra type {name}" for name in sorted(listed.keys() - table.keys())]
    for name in sorted(table.keys() & listed.keys()):
        if table[name] != listed[name]:
            problems.append(f"{name}: listed as {listed[name]}, expected {table[name]}")
    return problems


def uncovered_classes() -> list[str]:
    """Official classes that are neither a wire type nor excused: a newer release added something."""
    known = wire_types().keys() | NOT_ON_THE_WIRE.keys()
    return sorted(official_classes().keys() - known)
