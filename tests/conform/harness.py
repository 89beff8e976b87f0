"""The command and the server for the tests of `tinker conform`."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("TINKER_COMMAND", ROOT / "build/dev/bin/tinker")
SERVER = ROOT / "tests/support/tinker_server"
TIMEOUT_S = 600  # of one run; a deadlock ends here

OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130
MODEL = "tiny/bytes"
# Everything that a server may leave off, but compression, which the server has no library for.
FLAGS = {
    "config": {"create_model_via_load_weights": True, "sample_use_retrieve_futures": True},
    "dynamic_config": {"sample_cancel_enabled": True},
}


@contextlib.contextmanager
def server(*options):
    """The URL of a server with all flags on."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump(FLAGS, script)
        script.flush()
        command = [sys.executable, "-B", SERVER, "--script", script.name, *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def arguments(url, *more):
    return [str(COMMAND), "conform", "--base-url", url, "--model", MODEL, "--tolerance", "1e-3", *more]


def conform(url, *more):
    return subprocess.run(arguments(url, *more), capture_output=True, text=True, timeout=TIMEOUT_S)


def verdicts(run):
    """(law -> its object, the summary) of a run with --json."""
    *laws, summary = [json.loads(line) for line in run.stdout.splitlines()]
    return {law["id"]: law for law in laws}, summary


def list_laws():
    run = subprocess.run([str(COMMAND), "conform", "--list", "--json"], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def ask(url, path, body=None):
    """(status, body) of a GET, or of a POST of JSON."""
    data = None if body is None else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url + path, data), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
