"""A recording as a trace: what was asked for, lane by lane, without what changes from run to run.

Requests that one client makes at the same time arrive in any order, so a trace has lanes, each in the order of arrival:
    calls                   all but the following: start and end of sessions, models, batches, steps, checkpoints, REST
    sample ID SEQ           submissions of one sample
    poll REQUEST            questions for one result
    polls ID:CLONE          questions for results of a sampler
    cancel REQUEST
    telemetry SESSION       events by their index, however they were batched, and what all batches have in common
Heartbeats belong to no lane: when they are sent depends on the time alone.
"""

import base64
import json
import re

import wire

# How the bytes travelled, which is the transport's own business.
TRANSPORT_HEADERS = {"host", "connection", "content-length", "accept-encoding", "transfer-encoding"}
# About the machine, the language or the clock: that they are there is compared, their values are not.
VOLATILE_HEADERS = {
    "x-stainless-arch",
    "x-stainless-os",
    "x-stainless-package-version",
    "x-stainless-runtime",
    "x-stainless-runtime-version",
    "x-stainless-async",
    "x-tinker-create-promise-roundtrip-time",
    "x-sdk-version",
}
VOLATILE_MEMBERS = {"sdk_version", "process_uuid", "platform"}
# Of telemetry events: clocks, ids, and texts that name functions or quote errors.
VOLATILE_EVENT_MEMBERS = {"event_id", "timestamp", "duration", "error_message", "traceback"}
VOLATILE_EVENT_DATA = {
    "func",
    "model_cls",
    "exception",
    "exception_stack",
    "detail",
    "message",
    "start_time",
    "current_time",
    "elapsed_time",
    "request_headers",
    "response_headers",
}
KEY = "x-idempotency-key"
CLONE = 10**9


def veiled(members, volatile):
    """`members` with nothing but the presence of the volatile ones."""
    return {name: "(any)" if name in volatile and value is not None else value for name, value in members.items()}


class Request:
    def __init__(self, record):
        self.method = record["method"]
        self.path = record["path"]
        self.query = record["query"]
        self.headers = veiled(
            {name: value for name, value in sorted(record["headers"].items()) if name not in TRANSPORT_HEADERS},
            VOLATILE_HEADERS,
        )
        self.headers["user-agent"] = re.sub(r"[/ ][\d.]+$", "", self.headers.get("user-agent", ""))  # without its version
        self.body = wire.read_body(record["headers"], base64.b64decode(record["body"]))
        if isinstance(self.body, dict):
            self.body = veiled(self.body, VOLATILE_MEMBERS)
        if self.endpoint == "/create_session":
            self.body["tags"].sort()  # a set

    @property
    def endpoint(self):
        return self.path.removeprefix("/api/v1")

    def lane(self):
        if self.endpoint == "/asample":
            return f"sample {self.body['sampling_session_id']} {self.body['seq_id']}"
        if self.endpoint == "/retrieve_future":
            return f"poll {self.body['request_id']}"
        if self.endpoint == "/retrieve_futures":
            target = self.body["target"]
            return f"polls {target['sampling_session_id']}:{target['cloned_sampler_id']}"
        if self.endpoint == "/cancel_future":
            return f"cancel {self.body['request_id']}"
        return "calls"

    def entry(self):
        out = {"request": f"{self.method} {self.path}"}
        if self.query:
            out["query"] = self.query
        return {**out, "headers": self.headers, "body": self.body}


def event_entry(event):
    out = veiled(event, VOLATILE_EVENT_MEMBERS)
    if isinstance(out.get("event_data"), dict):
        out["event_data"] = veiled(out["event_data"], VOLATILE_EVENT_DATA)
    return out


def telemetry_lanes(requests):
    """The events of each session, after the envelope that its batches share; each other envelope counts."""
    lanes, ids = {}, {}
    for request in requests:
        session = request.body["session_id"]
        if session.startswith("sessionless-"):
            request.body["session_id"] = session = ids.setdefault(session, f"sessionless-{len(ids) + 1}")
        events = request.body.pop("events")
        request.headers[KEY] = "(any)" if KEY in request.headers else None
        envelopes, all_events = lanes.setdefault(f"telemetry {session}", ([], []))
        if request.entry() not in envelopes:
            envelopes.append(request.entry())
        all_events += events
    return {
        name: envelopes + [event_entry(event) for event in sorted(events, key=lambda e: e["event_session_index"])]
        for name, (envelopes, events) in lanes.items()
    }


def without_random_clones(records):
    """A restored sampler that asks nobody for its number draws one: it is 999999999 here (R10.15)."""
    records = [{**record, "body": base64.b64decode(record["body"])} for record in records]
    if not any(record["path"].endswith("/join_sampling_session") for record in records):
        for clone in {
            json.loads(record["body"])["seq_id"] // CLONE for record in records if record["path"].endswith("/asample")
        } - {0}:
            drawn = re.compile(rb"\b%d(?=\d{9}\b)" % clone)
            for record in records:
                record["body"] = drawn.sub(b"999999999", record["body"])
    return [{**record, "body": base64.b64encode(record["body"])} for record in records]


def sort_unordered(entries, unordered):
    """The parts of a batch that are sent at once, in the order of their numbers; the first one stays last."""
    places = [
        i
        for i, entry in enumerate(entries)
        if entry["request"].endswith("/forward_backward") and entry["body"]["seq_id"] in unordered
    ]
    for place, entry in zip(places, sorted((entries[i] for i in places), key=lambda e: e["body"]["seq_id"])):
        entries[place] = entry


def make_trace(records, unordered=()):
    """{lane: [entry]}; keys of idempotency are still the drawn ones."""
    requests = [Request(record) for record in without_random_clones(records)]
    telemetry = [request for request in requests if request.endpoint == "/telemetry"]
    lanes = {}
    for request in requests:
        if request.endpoint not in ("/telemetry", "/session_heartbeat"):
            lanes.setdefault(request.lane(), []).append(request.entry())
    sort_unordered(lanes.get("calls", []), unordered)
    return {**lanes, **telemetry_lanes(telemetry)}


def name_keys(trace):
    """Replaces each drawn key by the place where it is met first: equal names are equal keys."""
    names = {}
    for lane, entries in sorted(trace.items()):
        for i, entry in enumerate(entries):
            headers = entry.get("headers", {})
            if headers.get(KEY) not in (None, "(any)"):
                headers[KEY] = names.setdefault(headers[KEY], f"of {lane} {i + 1}")
    return trace


def render(trace):
    """Lines to compare and to read."""
    lines = []
    for lane, entries in sorted(trace.items()):
        lines.append(f"== {lane}")
        for entry in entries:
            lines += json.dumps(entry, indent=1, sort_keys=True).split("\n")
    return lines
