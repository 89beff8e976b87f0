"""A small Tinker server for tests of traces and laws: real answers to their requests, from a model of bytes.

    python3 tests/support/tinker_server [--script FILE] [--record FILE] [--] PROGRAM [ARGUMENT...]
    python3 tests/support/tinker_server [--port N] [--fault LAW]

Runs PROGRAM with TINKER_BASE_URL and TINKER_API_KEY set and ends with its exit status; without one it serves until it is
stopped. FILE of --script is JSON: "config" and "dynamic_config" are the answers to those two endpoints, "rules" say what
to answer instead of what the server would (rules.py). --record writes one JSON object per request, as they arrived.
--fault makes the server break one law of `tinker conform` (faults.py).
"""

import argparse
import asyncio
import json
import os
import pathlib
import sys

import faults
from api import Api
from http1 import serve
from rules import Rules


class Recorder:
    def __init__(self, path):
        self._file = path.open("w")

    def __call__(self, request):
        self._file.write(json.dumps(request.as_record()) + "\n")
        self._file.flush()


def program_environment(url):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}
    return {**inherited, "TINKER_BASE_URL": url, "TINKER_API_KEY": "tml-test-key", "HOME": "/nonexistent"}


async def run(arguments):
    script = json.loads(arguments.script.read_text()) if arguments.script else {}
    rules = Rules(script.get("rules", []))
    record = Recorder(arguments.record) if arguments.record else lambda request: None
    api = Api(script.get("config", {}), script.get("dynamic_config", {}))

    async def answer(request):
        record(request)
        return await rules.answer(request, api.answer) or await api.answer(request)

    server, url = await serve(answer, arguments.port)
    api.url = url
    async with server:
        if not arguments.program:
            print(url, flush=True)
            await asyncio.Event().wait()
        process = await asyncio.create_subprocess_exec(*arguments.program, env=program_environment(url))
        return await process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault", choices=faults.FAULTS)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.program[:1] == ["--"]:
        del arguments.program[0]
    if arguments.fault:
        faults.FAULTS[arguments.fault]()
    try:
        status = asyncio.run(run(arguments))
    except KeyboardInterrupt:
        status = 130
    sys.stdout.flush()
    os._exit(status)  # connections of clients that are gone need no farewell


main()
