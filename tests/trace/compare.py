"""Runs a script with the official SDK and with this library, and compares what each asked of the server.

    python compare.py --ours build/dev/bin/trace_scripts NAME...
    python compare.py --ours ... --all
    python compare.py --record NAME...     writes golden/NAME.json; needs an environment with the SDK and torch

Run it with the official SDK's environment. Exit status 1 when the traces differ, or when an exception that a script is
granted (exceptions.py) is not needed.
"""

import argparse
import concurrent.futures
import copy
import difflib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import exceptions
import recording
from scripts import SCRIPTS

HERE = pathlib.Path(__file__).resolve().parent
SERVER = HERE.parent / "support" / "tinker_server"
GOLDEN = HERE / "golden"
TIMEOUT_SECONDS = 60


CRASHED = (-signal.SIGABRT % 256, -signal.SIGSEGV % 256)  # exit statuses of a program that a signal ended


class Failed(Exception):
    def __init__(self, text, status=None):
        super().__init__(text)
        self.status = status


def record(script, program):
    """What one program asked of a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        settings, out = pathlib.Path(folder, "script.json"), pathlib.Path(folder, "recording.jsonl")
        rules = {"config": script.config, "dynamic_config": script.dynamic_config, "rules": script.rules}
        settings.write_text(json.dumps(rules))
        variables = [f"{name}={value}" for name, value in script.environment.items()]
        command = [sys.executable, "-B", SERVER, "--script", settings, "--record", out, "--", "env", *variables]
        try:
            done = subprocess.run([*command, *program], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{program[0]} did not end within {TIMEOUT_SECONDS} s") from late
        records = [json.loads(line) for line in out.read_text().splitlines()]
    if done.returncode != 0:
        asked = "\n".join(f"{record['method']} {record['path']}" for record in records)
        text = f"{program[0]} ended with {done.returncode}\n{done.stderr}\nafter\n{asked}"
        raise Failed(text, done.returncode)
    return records


def trace_of(name, records):
    return recording.make_trace(records, SCRIPTS[name].unordered)


def record_official(name):
    program = [sys.executable, "-B", HERE / "run_official.py", name]
    # Threads of the official client can crash the interpreter while that ends, on a loaded machine twice in a row.
    for _ in range(4):
        try:
            return record(SCRIPTS[name], program)
        except Failed as failed:
            if failed.status not in CRASHED:
                raise
            crashed = failed
    raise crashed


def official_trace(name):
    if SCRIPTS[name].needs_torch:
        return json.loads((GOLDEN / f"{name}.json").read_text())
    return trace_of(name, record_official(name))


def our_trace(name, program):
    return trace_of(name, record(SCRIPTS[name], [program, name]))


def difference(official, ours):
    """Lines of a diff; none when both are the same."""
    lines = [recording.render(recording.name_keys(copy.deepcopy(made))) for made in (official, ours)]
    return list(difflib.unified_diff(*lines, "official", "ours", lineterm="", n=8))


def check(name, official, ours):
    """What is wrong with the pair of traces of a script, as lines."""
    granted = exceptions.of_script(name)
    problems = difference(*exceptions.apply(granted, official, ours))
    for exception in granted if not problems else ():
        others = [other for other in granted if other is not exception]
        if not difference(*exceptions.apply(others, official, ours)):
            problems.append(f"the exception '{exception.name}' is not needed any more: take it from exceptions.py")
    return problems


def compare(name, ours):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        sides = pool.submit(official_trace, name), pool.submit(our_trace, name, ours)
        return check(name, *(side.result() for side in sides))


def write_golden(name):
    made = recording.name_keys(trace_of(name, record_official(name)))
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{name}.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    status = 0
    for name in SCRIPTS if arguments.all else arguments.names:
        if arguments.record:
            write_golden(name)
            continue
        try:
            problems = compare(name, arguments.ours)
        except Failed as failed:
            problems = [str(failed)]
        print("\n".join([*problems, f"{name}: {'differs' if problems else 'same'}"]))
        status |= bool(problems)
    return status


if __name__ == "__main__":
    sys.exit(main())
