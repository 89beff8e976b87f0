"""The differences that are meant, each with what docs/differences.md says of it.

An exception changes copies of both traces so that the difference it stands for, and no other, is gone. It is granted to the
scripts it names; compare.py fails when one of them would pass without it.
"""

import copy
import dataclasses
import json
import pathlib
from collections.abc import Callable

DIFFERENCES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "differences.md"


@dataclasses.dataclass(frozen=True)
class Granted:
    name: str
    cites: str  # how a row of docs/differences.md begins
    scripts: tuple | None  # None: all
    change: Callable  # (official, ours): in place


def requests(trace, end):
    """Those whose path ends with `end`, in all lanes."""
    return [entry for _, entries in sorted(trace.items()) for entry in entries if entry.get("request", "").endswith(end)]


def events(trace, lane):
    return [entry for entry in trace[lane] if "event" in entry]


def drop_events(trace, lane, is_dropped):
    """Without some events; the others are numbered anew."""
    trace[lane] = [entry for entry in trace[lane] if not ("event" in entry and is_dropped(entry))]
    for i, event in enumerate(events(trace, lane)):
        event["event_session_index"] = i


def own_user_agent(official, ours):
    for entries in ours.values():
        for entry in entries:
            if entry.get("headers", {}).get("user-agent") == "tinker-cpp":
                entry["headers"]["user-agent"] = "AsyncTinker/Python"


def one_number_per_sampler(official, ours):
    """The retried save took number 1, what came later took 2: one less each."""
    saves = requests(official, "/save_weights_for_sampler")
    if [save["body"]["sampling_session_seq_id"] for save in saves] != [0, 1]:
        return
    saves[1]["body"]["sampling_session_seq_id"] = 0
    for entry in requests(official, "/create_sampling_session"):
        entry["body"]["sampling_session_seq_id"] -= 1
    text = json.dumps(official).replace("session-1:sample:1", "session-1:sample:0")
    official.clear()
    official.update(json.loads(text.replace("session-1:sample:2", "session-1:sample:1")))


def own_checkpoint(official, ours):
    """After the 409 the official client saves once more and asks for the result; we look whether it is there."""
    saves = requests(official, "/save_weights")
    if len(saves) != 3:
        return
    official["calls"] = [entry for entry in official["calls"] if entry is not saves[2]]
    official.pop("poll session-1:train:0:1", None)
    drop_events(official, "telemetry session-1", lambda e: e.get("event_data", {}).get("status_code") == 409)
    looks = requests(ours, "/training_runs/session-1:train:0/checkpoints")
    ours["calls"] = [entry for entry in ours["calls"] if entry not in looks[:1]]


def token_as_given(official, ours):
    for entry in requests(official, "/load_weights"):
        if entry["body"]["weights_access_token"].startswith("eyJ"):
            entry["body"]["weights_access_token"] = "tml-owner-key"


def no_headers_in_handles(official, ours):
    for lane, entries in official.items():
        if "999999999" in lane:
            for entry in entries:
                entry["headers"].pop("x-team", None)


def sent_again_at_once(official, ours):
    """The second sending has the count of the first; the official client's is a retry."""
    first, second = requests(ours, "/forward_backward")[:2]
    if first == second:
        second["headers"]["x-stainless-retry-count"] = "1"


def refused_locally(official, ours):
    """Errors of arguments, each with the end of the session that the official client makes of it."""
    for lane in [lane for lane in official if lane.startswith("telemetry")]:
        refused = {
            event["event_session_index"]
            for event in events(official, lane)
            if event["event"] == "UNHANDLED_EXCEPTION" and event["error_type"] == "ValueError"
        }
        ends = {i + 1 for i in refused}
        drop_events(
            official,
            lane,
            lambda e: e["event_session_index"] in refused
            or (e["event"] == "SESSION_END" and e["event_session_index"] in ends),
        )
        if not events(official, lane):
            del official[lane]


def polls_keep_their_status(official, ours):
    """The official client wraps the error of a poll that has failed for good in a ValueError."""
    for event in events(official, "telemetry session-1"):
        data = event.get("event_data", {})
        names = {400: "BadRequestError", 404: "NotFoundError"}
        if event.get("event_name") == "user_error" and data["error_type"] == "ValueError":
            data["error_type"] = names[data["status_code"]]


ALL = (
    Granted("own user agent", "PROTOCOL 3: the user agent", None, own_user_agent),
    Granted("one number per sampler", "R7.9: an ephemeral save", ("save_ephemeral_retries",), one_number_per_sampler),
    Granted("own checkpoint", "R7.13: a 409 on a save", ("save_lost_answer",), own_checkpoint),
    Granted("token as given", "R11.12: the access token", ("from_state_of_others_by_token",), token_as_given),
    Granted("no headers in handles", "D8, R17.3: header overrides", ("sampler_handle",), no_headers_in_handles),
    Granted("sent again at once", "R5.2.2: a request on a kept", ("train_stale_connection",), sent_again_at_once),
    Granted(
        "polls keep their status",
        "R14.11: the error of a poll",
        ("train_poll_refused", "train_poll_bad_requests"),
        polls_keep_their_status,
    ),
    Granted("refused locally", "R14.9: arguments", ("sampler_missing", "rest_bad_arguments"), refused_locally),
)


def of_script(name):
    return [granted for granted in ALL if granted.scripts is None or name in granted.scripts]


def apply(granted, official, ours):
    """Copies of both traces with what the exceptions make of them."""
    official, ours = copy.deepcopy(official), copy.deepcopy(ours)
    for exception in granted:
        exception.change(official, ours)
    return official, ours


def check_citations():
    """Names of exceptions that docs/differences.md does not justify."""
    text = DIFFERENCES.read_text()
    return [granted.name for granted in ALL if f"\n| {granted.cites}" not in text]
