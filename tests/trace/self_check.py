"""Proves that compare.py notices differences: damages recordings of the official SDK and expects a diff.

    python self_check.py --ours build/dev/bin/trace_scripts

Also: every exception has its row in docs/differences.md and is refused where it is not needed, and both sides have the
scripts that scripts.py names. Exit status 1 when something goes unnoticed.
"""

import argparse
import base64
import concurrent.futures
import copy
import json
import subprocess
import sys

import compare
import exceptions
import run_official
import wire
from scripts import SCRIPTS

DAMAGES = []


def damage(*names):
    """A function that changes the records of these scripts in a way that must be noticed."""

    def add(function):
        DAMAGES.extend((name, function) for name in names)
        return function

    return add


def find(records, end, nth=0):
    return [record for record in records if record["path"].endswith(end)][nth]


def edit_json(record, change):
    body = json.loads(base64.b64decode(record["body"]))
    change(body)
    record["body"] = base64.b64encode(json.dumps(body).encode()).decode()


def edit_batch(record, change):
    message = wire.MESSAGES.ForwardBackwardRequest.FromString(base64.b64decode(record["body"]))
    change(message)
    record["body"] = base64.b64encode(message.SerializeToString()).decode()


STEPS, SAMPLES, SEARCH, RETRIES, FAILURE = (
    "train_five_chunks_serial",
    "sample_readouts",
    "rest_search",
    "train_submission_retries",
    "train_failed_future",
)


@damage(STEPS, SAMPLES, SEARCH)
def a_request_is_missing(records):
    del records[len(records) // 2]


@damage(STEPS, SAMPLES, SEARCH)
def a_request_is_made_twice(records):
    records.insert(3, records[2])


@damage(STEPS)
def two_parts_change_places(records):
    i, j = (records.index(find(records, "/forward_backward", nth)) for nth in (1, 2))
    records[i], records[j] = records[j], records[i]


@damage(STEPS)
def a_step_overtakes_its_batch(records):
    records.insert(records.index(find(records, "/forward_backward")), records.pop(records.index(find(records, "/optim_step"))))


@damage(SEARCH)
def another_method(records):
    find(records, "/search")["method"] = "PUT"


@damage(SEARCH)
def another_path(records):
    find(records, "/search")["path"] += "/"


@damage(SEARCH)
def a_query_that_was_not_there(records):
    find(records, "/search")["query"] = {"limit": "50"}


@damage(SEARCH)
def a_null_that_was_absent(records):
    edit_json(find(records, "/search"), lambda body: body.update(session_id=None))


@damage(SEARCH)
def a_member_is_missing(records):
    edit_json(find(records, "/search"), lambda body: body.pop("owner"))


@damage(SEARCH)
def a_list_in_another_order(records):
    edit_json(find(records, "/search", 1), lambda body: body["statuses"].reverse())


@damage(SEARCH)
def no_name_of_the_method(records):
    del find(records, "/search")["headers"]["x-sdk-method"]


@damage(SAMPLES)
def an_integer_for_a_float(records):
    edit_json(find(records, "/asample"), lambda body: body["sampling_params"].update(top_p=1))


@damage(SAMPLES)
def a_sample_with_another_number(records):
    edit_json(find(records, "/asample"), lambda body: body.update(seq_id=17))


@damage(SAMPLES)
def no_wish_for_backpressure(records):
    del find(records, "/asample")["headers"]["x-tinker-sampling-backpressure"]


@damage(SAMPLES, STEPS)
def a_poll_of_another_type(records):
    find(records, "/retrieve_future", 1)["headers"]["x-tinker-request-type"] = "OptimStep2"


@damage(SAMPLES, STEPS)
def a_poll_with_another_iteration(records):
    find(records, "/retrieve_future")["headers"]["x-tinker-request-iteration"] = "1"


@damage(SAMPLES)
def a_poll_that_takes_json(records):
    find(records, "/retrieve_future")["headers"]["accept"] = "application/json"


@damage(STEPS)
def no_round_trip_time(records):
    del find(records, "/retrieve_future")["headers"]["x-tinker-create-promise-roundtrip-time"]


@damage(STEPS)
def another_key(records):
    find(records, "/optim_step")["headers"]["x-api-key"] = "tml-other-key"


@damage(STEPS)
def a_header_that_was_not_there(records):
    find(records, "/optim_step")["headers"]["x-odd"] = "1"


@damage(STEPS)
def another_time_out(records):
    find(records, "/create_session")["headers"]["x-stainless-read-timeout"] = "61"


@damage(STEPS)
def a_weight_that_is_off_by_a_bit(records):
    def change(message):
        data = bytearray(message.data[0].loss_fn_inputs["weights"].dense)
        data[0] ^= 1
        message.data[0].loss_fn_inputs["weights"].dense = bytes(data)

    edit_batch(find(records, "/forward_backward"), change)


@damage(STEPS)
def no_shape(records):
    edit_batch(find(records, "/forward_backward"), lambda m: m.data[0].loss_fn_inputs["weights"].ClearField("shape"))


@damage(STEPS)
def a_forward_pass_alone(records):
    edit_batch(find(records, "/forward_backward"), lambda m: setattr(m, "forward_only", True))


@damage(STEPS)
def another_token(records):
    def change(message):
        message.data[0].model_input[0].encoded_text.tokens = bytes(12)

    edit_batch(find(records, "/forward_backward"), change)


@damage(STEPS)
def a_field_that_no_schema_has(records):
    record = find(records, "/forward_backward")
    record["body"] = base64.b64encode(base64.b64decode(record["body"]) + b"\xf8\x07\x01").decode()


@damage(RETRIES)
def a_retry_with_a_key_of_its_own(records):
    find(records, "/forward_backward", 1)["headers"]["x-idempotency-key"] = "another"


@damage(STEPS)
def two_calls_with_one_key(records):
    key = find(records, "/create_model")["headers"]["x-idempotency-key"]
    find(records, "/optim_step")["headers"]["x-idempotency-key"] = key


@damage(RETRIES)
def a_retry_that_does_not_count(records):
    find(records, "/forward_backward", 2)["headers"]["x-stainless-retry-count"] = "1"


@damage(FAILURE)
def an_event_is_missing(records):
    edit_json(find(records, "/telemetry", -1), lambda body: body["events"].pop())


@damage(FAILURE)
def an_event_of_another_severity(records):
    edit_json(find(records, "/telemetry", -1), lambda body: body["events"][-1].update(severity="CRITICAL"))


@damage(FAILURE)
def an_event_without_a_member(records):
    edit_json(find(records, "/telemetry"), lambda body: body["events"][1]["event_data"].popitem())


@damage(FAILURE)
def another_user_agent(records):
    find(records, "/telemetry")["headers"]["user-agent"] = "curl/8.0"


def unnoticed_damages():
    names = sorted({name for name, _ in DAMAGES})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        recordings = dict(zip(names, pool.map(compare.record_official, names)))
    for name, function in DAMAGES:
        damaged = copy.deepcopy(recordings[name])
        function(damaged)
        try:
            is_same = not compare.difference(compare.trace_of(name, recordings[name]), compare.trace_of(name, damaged))
        except ValueError:
            is_same = False  # it cannot even be read
        if is_same:
            yield f"{name}: unnoticed: {function.__name__}"
    for name, records in recordings.items():
        official = compare.trace_of(name, records)
        if not any("not needed" in line for line in compare.check(name, official, copy.deepcopy(official))):
            yield f"{name}: an exception that is not needed goes unnoticed"


def missing_scripts(ours):
    theirs = {name for name in SCRIPTS if hasattr(run_official.module_of(name), name)}
    listed = set(subprocess.run([ours, "--list"], capture_output=True, text=True, check=True).stdout.split())
    yield from (f"no script {name} in official/" for name in SCRIPTS.keys() - theirs)
    yield from (f"only one of scripts.py and the C++ scripts has {name}" for name in SCRIPTS.keys() ^ listed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    arguments = parser.parse_args()
    problems = [f"no row in docs/differences.md for the exception '{name}'" for name in exceptions.check_citations()]
    problems += [*missing_scripts(arguments.ours), *unnoticed_damages()]
    print("\n".join(problems) or f"{len(DAMAGES)} damages, all noticed; {len(SCRIPTS)} scripts")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
