#!/usr/bin/env python3
"""Holds docs/conformance.md, server_conformance.md, scenarios.md, differences.md and python_api.md to the tests: no rule missing, no
test that is not there.

    tools/check_conformance.py --build-dir DIR   every rule has a row, every test it names exists, every file of tests is built
    tools/check_conformance.py --junit FILE      every test it names ran and passed, as ctest's report says
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ROOT / "docs/scenarios.md"
SERVER = ROOT / "docs/server_conformance.md"
PAGES = [ROOT / "docs/conformance.md", ROOT / "docs/differences.md", ROOT / "docs/python_api.md", SCENARIOS, SERVER]
INCLUDED = re.compile(r'#include "([^"]+)"')


def numbered(prefix: str, last: int) -> list[str]:
    return [f"{prefix}.{n}" for n in range(1, last + 1)]


# Every rule of the description's chapters on the run time, and every row of its tables without numbers.
RULES = [
    *numbered("R1", 18), *numbered("R2", 4), *numbered("R3", 18), *numbered("R4", 5),
    *numbered("R5.1", 3), *numbered("R5.2", 6), *numbered("R5.3", 3), *numbered("R5.4", 6), *numbered("R5.5", 7),
    *numbered("R6", 29), *numbered("R7", 20), "R7.11b", *numbered("R8", 7), *numbered("R9", 13), *numbered("R10", 15), *numbered("R11", 17),
    *numbered("R12", 7), *numbered("R13", 5), *numbered("R14", 14),
    *numbered("R16", 6), *numbered("R17", 3), *numbered("R20", 3),
    *(f"15 {name}" for name in [
        "TinkerError", "APIError", "APIResponseValidationError", "APIStatusError", "BadRequestError",
        "AuthenticationError", "BillingError", "PermissionDeniedError", "NotFoundError", "ConflictError",
        "UnprocessableEntityError", "RateLimitError", "InternalServerError", "APIConnectionError", "APITimeoutError",
        "RequestFailedError", "ValueError", "RetryableException", "TimeoutError", "AssertionError", "KeyError",
        "RuntimeError", "message texts"]),
    *(f"19 {name}" for name in [
        "TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD", "TINKER_PROJECT_ID", "TINKER_TAGS",
        "TINKER_TELEMETRY", "TINKER_LOG", "TINKER_FEATURE_GATES", "CLOUDFLARE_ACCESS_CLIENT_ID",
        "CLOUDFLARE_ACCESS_CLIENT_SECRET", "HOME"]),
]
# Every public name of the official SDK 0.36.0, by section of python_api.md.
PYTHON_API = {
    "ServiceClient": """
        constructor; context manager; close; get_console_url; holder; get_server_capabilities;
        create_lora_training_client; create_training_client_from_state;
        create_training_client_from_state_with_optimizer; create_sampling_client; create_custom_loss; copy_weights;
        create_rest_client; get_telemetry""",
    "TrainingClient": """
        model_id; get_console_url; forward; forward_backward; forward_backward_custom; optim_step; save_state;
        load_state; load_state_with_optimizer; save_weights_for_sampler; save_weights_external;
        save_weights_and_get_sampling_client; create_sampling_client; get_info; get_tokenizer; get_telemetry""",
    "SamplingClient": """
        create; sample; compute_logprobs; get_sampler_handle; from_sampler_handle; get_tokenizer; get_base_model;
        on_queue_state_change; pickling""",
    "RestClient and AdminClient": """
        constructor; get_training_run; get_training_run_by_tinker_path; list_training_runs; list_checkpoints;
        list_user_checkpoints; get_weights_info_by_tinker_path; get_external_weights_urls; copy_weights;
        delete_checkpoint; delete_checkpoint_from_tinker_path; publish_checkpoint_from_tinker_path;
        unpublish_checkpoint_from_tinker_path; set_checkpoint_ttl_from_tinker_path; get_session; list_sessions;
        search_sessions; assign_session_project; export_session_trace; whoami; get_sampler; get_audit_log;
        get_billing_usage; get_current_checkpoint_storage_usage""",
    "LossHandle": """
        name; inputs, input_names; session_id; graph; loss_id; key; PerDatumLossFn""",
    "Futures": """
        APIFuture.result(timeout); APIFuture.result_async; AwaitableConcurrentFuture; AwaitableConcurrentFuture.future()""",
    "RetryConfig and RetryHandler": """
        max_connections; progress_timeout; retry_delay_base; retry_delay_max; jitter_factor; enable_retry_logic;
        enable_stuck_detection; retryable_exceptions; RetryHandler""",
    "Types: inputs": """
        ModelInput; ModelInput.from_ints; ModelInput.empty; ModelInput.to_ints; ModelInput.length; ModelInput.append;
        ModelInput.append_int; EncodedTextChunk; ImageChunk; ImageAssetPointerChunk; DmelChunk; length of a chunk;
        Datum; Datum.with_provenance; PromptProvenanceSpan, SampledProvenanceSpan; TensorData; TensorData.from_numpy,
        to_numpy; TensorData.from_torch, to_torch; TensorData.from_torch_sparse; TensorData.data;
        TensorData.tolist(pad_value); SamplingParams; LoraConfig; AdamParams; AdamOptimizerConfig;
        DimuonOptimizerConfig; DimuonParams; OptimizerConfig, OptimParams; CustomLossInput; CustomLossNode;
        CustomLossGraph; SessionSearchRequest; OwnSearchOwner; AccessibleSearchOwner; UserSearchOwner;
        ActiveSessionStatusQuery; CancelledSessionStatusQuery; FailedSessionStatusQuery;
        ClientFinishedSessionStatusQuery; ForwardBackwardInput, ForwardRequest; ForwardBackwardRequest; SampleRequest;
        OptimStepRequest; CreateModelRequest; CreateSessionRequest; CreateSamplingSessionRequest;
        SessionHeartbeatRequest; GetInfoRequest; UnloadModelRequest; LoadWeightsRequest; SaveWeightsRequest;
        SaveWeightsForSamplerRequest; FutureRetrieveRequest; ClientConfigRequest; TelemetrySendRequest;
        GetBillingUsageRequest; CopyWeightsRequest; CreateCustomLossRequest; FuturesRetrieveRequest;
        SamplingSessionFuturesTarget; GetCurrentCheckpointStorageUsageRequest; JoinSamplingSessionRequest;
        SaveWeightsExternalRequest""",
    "Types: results": """
        ForwardBackwardOutput; SampleResponse; SampleResponse.prompt_logprobs; SampleResponse.topk_prompt_logprobs;
        SampledSequence; SampledSequence.topk_logprobs; TopkLogprobs; PromptAltTokens; OptimStepResponse;
        SaveWeightsResponse; SaveWeightsExternalResponse; SaveWeightsExternalResponseInternal;
        SaveWeightsForSamplerResponse; SaveWeightsForSamplerResponse.get_console_url;
        SaveWeightsForSamplerResponse.get_playground_url; SaveWeightsForSamplerResponseInternal; LoadWeightsResponse;
        CreateModelResponse; UnloadModelResponse; GetInfoResponse; ModelData; GetServerCapabilitiesResponse;
        SupportedModel; GetSamplerResponse; WeightsInfoResponse; WhoamiResponse; CopyWeightsResponse;
        CreateCustomLossResponse; ExternalWeightsUrlsResponse; JoinSamplingSessionResponse; FuturesRetrieveResponse;
        FutureFinished; FutureFailed; CurrentCheckpointStorageUsageResponse; CurrentCheckpointStorageUsageItem;
        SessionSearchResponse; SessionSearchCursor; SessionSummary; SessionStatus; SessionActive; SessionCancelled;
        ClientSessionFinished; SessionFailed; ClientSessionFinishReason; ClientSessionFinishSuccess;
        ClientSessionFinishErrored; ClientSessionFinishInterrupted; SessionFailedReason; SessionFailedRequestReason;
        SessionFailedTrainingRunReason; SessionFailedSamplingSessionReason; TrainingRun; TrainingRunsResponse; Cursor;
        Checkpoint; CheckpointsListResponse; ParsedCheckpointTinkerPath; ParsedCheckpointTinkerPath.from_tinker_path;
        GetSessionResponse; ListSessionsResponse; AuditLogResponse; AuditLogEntry; BillingUsageResponse;
        BillingUsageEvent; BillingUsageSession; TrainingBillingEvent; SamplingPrefillBillingEvent;
        SamplingSampleBillingEvent; CheckpointBillingEvent; StorageBillingEvent; BillingEventInfo; ClientConfigResponse;
        ClientDynamicConfigResponse; AuthTokenResponse; CreateSessionResponse; CreateSamplingSessionResponse;
        SessionHeartbeatResponse; HealthResponse; TelemetryResponse; UntypedAPIFuture; RequestFailedResponse;
        TryAgainResponse; RequestErrorCategory; SessionStartEvent; SessionEndEvent; UnhandledExceptionEvent;
        GenericEvent; TelemetryBatch; TelemetryEvent""",
    "Aliases": """
        FutureCompletion; CustomLossInputRank; ClientSessionFinishReasonType; ModelID, RequestID; LossFnType;
        TensorDtype; StopReason; CheckpointType; EventType; Severity; LossFnInputs, LossFnOutput; ModelInputChunk;
        FutureRetrieveResponse""",
    "Exceptions": """
        TinkerError; APIError; APIStatusError; APITimeoutError; APIConnectionError; APIResponseValidationError;
        RequestFailedError; BadRequestError; AuthenticationError; BillingError; PermissionDeniedError; NotFoundError;
        ConflictError; UnprocessableEntityError; RateLimitError; InternalServerError; message; request, response; body;
        status_code; request_id; category; ExperimentalWarning""",
    "Package": """
        auth.get_tinker_token; auth.tinker_has_credentials; auth.raise_if_tinker_not_accessible; Timeout;
        RequestOptions; APIResponse, AsyncAPIResponse; `__version__`; `__title__`; QueueState, QueueStateObserver;
        Telemetry; JsonCredentialStore, ManualKey, GeneratedKey; AsyncTinker: service, models, training, weights,
        sampling, futures, telemetry; AsyncTinker: service.health_check; AsyncTinker: client.get, post, put, patch,
        delete, copy""",
}
# What the acceptance list of the embedded server asks, by section of server_conformance.md.
SERVER_BEHAVIOURS = {
    "Its API": """
        capabilities; one name, two kinds; pipelined steps; loss_fn_output_type; outputs; zero weights; given weights;
        no weights; load into a used client; resume without optimizer; resume with optimizer; custom cross entropy;
        archive; list_checkpoints; list_training_runs; delete by path; delete by bare id; tokenizer of a sampler;
        lengths; stop token; top_k; seeds; prompt logprobs; stop strings; unload; stale sessions; build_cmd_engine""",
    "Validation": """
        settings of ppo; value_clip, dppo; unknown settings; no settings; optimizer of a load; chunks without a type;
        images""",
    "Lost answers": """
        same request; other payload or type; race; no number; unstable connections; result whose client has gone""",
    "Waiting": """
        completion; failure; a waiter that gives up; the time of one waiter; cost of a poll; unknown ids; stored
        bytes; protobuf""",
    "Protobuf": """
        sequences; None in prompt logprobs; ragged and undefined top-k rows; ragged datums; a field missing in one
        datum; empty outputs; forward; forward_only and settings; zstd; broken zstd and garbage""",
    "Scheduling": """
        barriers; models; adapters in a batch of samples; completion; passes before a barrier; backlog of more than
        500; ids of sampling sessions; test_db""",
    "Numbers": """
        cispo; slots of adapters; a new adapter; unsupported loss; gradients of tenants; micro-batches; parameters of
        Adam; metrics of a step; computing layers again; cut of a large batch; prompt logprobs beside other requests;
        logits in pieces; logits of transformers; decoding with a cache; company; greedy and sampled in one batch;
        ties of top_k; edges of top_p; LoRA saved and loaded""",
    "Adapters beside each other": """
        two adapters; the step of one; split passes; one is unloaded; samples of adapters; samples beside training;
        mixed ranks; after the last unload""",
    "Gates of other servers": """
        G1; G2; G5; G6; G9; every SDK method; announced flags; reference numbers; validate_temperature_logprobs;
        compare_sampling_training_logprobs; recipes of the cookbook; test_conflict_recovery""",
    "What users of other servers met": """
        512 samples at once; 208 bodies of 3.3 MB at once; 64 bodies of 500 KB at once; SDK 0.36 sample;
        optimizer_config; overwrite; dotted names; set_ttl; unpublish after publish; close; a body of an unknown type;
        a datum beside a longer one; 64 first samples at once""",
}
NAME = re.compile(r"`([a-z_0-9]+\.[A-Za-z_0-9./]+)`")
# A method of a script that runs the official SDK: the test that runs the script, the script, the SDK's release, class and method.
METHOD = re.compile(r"(server\.sdk_([a-z_]+?)(?:_(\d+\.\d+\.\d+)\w*)?)/(\w+)\.(test_\w+)")
NO_TEST = ("does not apply:", "to come:")


def table_rows(text: str) -> list[list[str]]:
    """The cells of every row of every table with three columns or more, without headings."""
    out = []
    lines = text.splitlines()
    for line, below in zip(lines, [*lines[1:], ""]):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        is_heading = below.startswith("|-")
        if line.startswith("|") and len(cells) >= 3 and not is_heading and not set(cells[0]) <= {"-", ":"}:
            out.append(cells)
    return out


def rows(page: Path) -> list[tuple[str, str]]:
    """(first cell, last cell) of every table row."""
    return [(cells[0], cells[-1]) for cells in table_rows(page.read_text())]


def check_rules() -> list[str]:
    table = dict(rows(PAGES[0]))
    findings = [f"{rule}: no row in {PAGES[0].name}" for rule in RULES if rule not in table]
    for rule, proof in table.items():
        if rule in RULES and not NAME.search(proof) and not proof.startswith(NO_TEST):
            findings.append(f"{rule}: names no test, and gives no reason ({' or '.join(NO_TEST)})")
    return findings


def check_scenarios() -> list[str]:
    """The numbered ones are all there, and every row has its test or its reason."""
    table = [(scenario, proof) for scenario, proof in rows(SCENARIOS) if proof != "proof"]
    numbers = {scenario.split()[0] for scenario, _ in table}
    findings = [f"scenario {n}: no row in {SCENARIOS.name}" for n in range(1, 16) if str(n) not in numbers]
    return findings + [f"scenario {scenario}: names no test, and gives no reason" for scenario, proof in table
                       if not NAME.search(proof) and not proof.startswith(NO_TEST)]


def check_server() -> list[str]:
    """Every behaviour has a row in its section, and a test or a reason."""
    findings = []
    for section in re.split(r"^## ", SERVER.read_text(), flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        table = {cells[0]: cells[-1] for cells in table_rows(body)}
        wanted = " ".join(SERVER_BEHAVIOURS.get(title, "").split()).split("; ")
        findings += [f"{title}: {name}: no row in {SERVER.name}" for name in wanted if name not in table]
        findings += [f"{title}: {name}: names no test, and gives no reason ({' or '.join(NO_TEST)})"
                     for name, proof in table.items() if not NAME.search(proof) and not proof.startswith(NO_TEST)]
    text = SERVER.read_text()
    return findings + [f"{SERVER.name} has no section '{title}'" for title in SERVER_BEHAVIOURS if f"\n## {title}\n" not in text]


def check_config_flags() -> list[str]:
    """Every flag by which a server configures its clients has a row "2 flag" in conformance.md."""
    header = (ROOT / "include/tinker/types/client_config.h").read_text()
    flags = [name for struct in re.findall(r"struct Client(?:Dynamic)?ConfigResponse \{(.*?)\n\};", header, re.S)
             for name in re.findall(r"^  [\w:]+ (\w+) = ", struct, re.M)]
    table = dict(rows(PAGES[0]))
    return [f"{flag}: no row '2 {flag}' with a test or a reason in {PAGES[0].name}" for flag in flags
            if not NAME.search(table.get(f"2 {flag}", "")) and not table.get(f"2 {flag}", "").startswith(NO_TEST)]


def check_python_api() -> list[str]:
    """Every Python name has a row that names a test or gives a reason, and every C++ name is in a public header."""
    page = PAGES[2]
    headers = " ".join(path.read_text() for path in (ROOT / "include").rglob("*.h"))
    known = set(re.findall(r"\w+", headers)) | {"co_await", "std", "variant", "string"}
    findings = []
    for section in re.split(r"^## ", page.read_text(), flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        table = {cells[0]: cells for cells in table_rows(body)}
        for name in " ".join(PYTHON_API[title].split()).split("; "):
            if name not in table:
                findings.append(f"{title}: {name}: no row in {page.name}")
        for name, (*_, cpp, proof) in table.items():
            if not NAME.search(proof) and not proof.startswith(NO_TEST):
                findings.append(f"{title}: {name}: names no test, and gives no reason ({' or '.join(NO_TEST)})")
            words = {word for code in re.findall(r"`([^`]*)`", cpp) for word in re.findall(r"[A-Za-z_]\w+", code)}
            findings += [f"{title}: {name}: {word} is in no public header" for word in sorted(words - known)]
    return findings


def named_tests() -> set[str]:
    return {name for page in PAGES for _, proof in rows(page) for name in NAME.findall(proof)}


def methods_of(script: str, is_newest: bool) -> set[str]:
    """CLASS.METHOD of a script, without what it does not define for a release: it asks by these names."""
    # What the newest of the releases that ctest runs has, and the older ones do not.
    features = {"IS_NEW", "EXPORTS", "COPIES", "COUNTS_STORAGE"}
    found = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                found.add(prefix + node.name)
            elif isinstance(node, ast.If):
                negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
                asked = node.test.operand if negated else node.test
                if isinstance(asked, ast.Name) and asked.id in features:
                    visit(node.body if is_newest != negated else node.orelse, prefix)

    visit(ast.parse((ROOT / f"tests/server/{script}.py").read_text()).body, "")
    return found


def missing_methods() -> list[str]:
    findings = []
    for name in sorted(named_tests()):
        if method := METHOD.fullmatch(name):
            _, script, release, cls, test = method.groups()
            if f"{cls}.{test}" not in methods_of(script, release in (None, "0.36.0")):
                findings.append(f"{name}: tests/server/{script}.py has no such method")
    return findings


def named_ctests() -> set[str]:
    """A script fails unless all its methods have run and passed, so its test stands for them."""
    return {method[1] if (method := METHOD.fullmatch(name)) else name for name in named_tests()}


def existing_tests(build_dir: str) -> set[str]:
    listing = subprocess.run(["ctest", "--test-dir", build_dir, "-N"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ *Test +#\d+: (\S+)", listing, re.M))


def unbuilt_tests(build_dir: str) -> list[str]:
    """Files of tests that no target compiles. Those of the adapters need libraries that may not be there."""
    commands = Path(build_dir, "compile_commands.json")
    if not commands.exists():
        return []
    built = {Path(entry["file"]) for entry in json.loads(commands.read_text())}
    # Sources that are compiled as one are included by a file in the build folder, by relative paths.
    for combined in [path for path in built if path.parent.suffix == ".combined"]:
        built |= {Path(os.path.normpath(combined.parent / name)) for name in INCLUDED.findall(combined.read_text())}
    files = [path for path in sorted(ROOT.glob("tests/**/*_test.cc")) if path.parent.name != "adapters"]
    return [f"{path.relative_to(ROOT)}: not built, so none of its tests runs" for path in files if path not in built]


def passed_tests(report: str) -> set[str]:
    return {case.get("name") for case in xml.parse(report).getroot().iter("testcase")
            if case.get("status") == "run" and case.find("failure") is None and case.find("skipped") is None}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build-dir")
    parser.add_argument("--junit")
    arguments = parser.parse_args()
    findings = check_rules() + check_scenarios() + check_server() + check_config_flags() + check_python_api()
    findings += missing_methods()
    if arguments.build_dir:
        findings += unbuilt_tests(arguments.build_dir)
        findings += [f"{name}: no such test" for name in sorted(named_ctests() - existing_tests(arguments.build_dir))]
    if arguments.junit:
        findings += [f"{name}: did not run, or did not pass" for name in sorted(named_ctests() - passed_tests(arguments.junit))]
    if findings:
        print("\n".join(findings), file=sys.stderr)
        return 1
    if not arguments.junit:
        print(f"check_conformance: {len(RULES)} rules, {len(named_tests())} tests named, "
              f"{sum(names.count(';') + 1 for names in PYTHON_API.values())} names of the Python SDK")
    return 0


if __name__ == "__main__":
    sys.exit(main())
