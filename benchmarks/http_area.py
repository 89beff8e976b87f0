"""`./dev bench http`: our client and the official SDK make the same calls on the same server, one after the other."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent

IN_FLIGHT = (400, 2000)
OUR_REQUESTS = 100_000
PEER_REQUESTS = 4_000
POLLS = 2_000
POLL_MS = "0-4000"
OUR_POLLS = 20_000
PEER_POLLS = 6_000


@contextlib.contextmanager
def server(build_dir, *options):
    """{"plain": URL, "tls": URL, "ca": FILE} of a load server."""
    program = build_dir / "bin" / "tinker_load_server"
    process = subprocess.Popen([program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield dict(process.stdout.readline().split() for _ in range(3))
    finally:
        process.stdin.close()
        process.wait()


def run_ours(build_dir, url, ca, *work):
    program = build_dir / "bin" / "http_bench"
    command = [program, url, ca, *map(str, work)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def run_peer(url, ca, *work):
    command = [sys.executable, HERE / "http_peer.py", url, *map(str, work)]
    environment = {**os.environ, "SSL_CERT_FILE": ca}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)


def best_of(runs):
    """The run with the least CPU per request: a busy moment of the machine does not decide."""
    return min(runs, key=lambda run: run["cpu_seconds"] / run["requests"])


def small_requests(name, url, ca, build_dir, make_row, rounds):
    for in_flight in IN_FLIGHT:
        ours = best_of([run_ours(build_dir, url, ca, "small", in_flight, OUR_REQUESTS) for _ in range(rounds)])
        peer = run_peer(url, ca, "small", in_flight, PEER_REQUESTS)
        label = f"{name} {in_flight} in flight"
        measures = [
            ("requests", "req/s", lambda run: run["requests"] / run["seconds"]),
            ("requests per CPU second", "req/s", lambda run: run["requests"] / run["cpu_seconds"]),
            ("CPU per request", "us", lambda run: run["cpu_seconds"] / run["requests"] * 1e6),
            ("largest memory", "MB", lambda run: run["megabytes"]),
        ]
        for what, unit, value in measures:
            yield make_row(f"{label}, {what}", value(ours), unit, peer["peer"], value(peer))


def long_polls(name, url, ca, build_dir, make_row):
    ours = run_ours(build_dir, url, ca, "poll", POLLS, OUR_POLLS)
    peer = run_peer(url, ca, "poll", POLLS, PEER_POLLS)
    label = f"poll {name} {POLLS} of 0-4 s"
    share = lambda run: run["cpu_seconds"] / run["seconds"] * 100
    yield make_row(f"{label}, share of a core", share(ours), "%", peer["peer"], share(peer))
    memory = lambda run: run["megabytes"]
    yield make_row(f"{label}, largest memory", memory(ours), "MB", peer["peer"], memory(peer))


def measure(build_dir, make_row, rounds):
    rows = []
    with server(build_dir) as at:
        for name, url in (("h1", at["plain"]), ("h2", at["tls"])):
            rows += small_requests(name, url, at["ca"], build_dir, make_row, rounds)
    with server(build_dir, "--poll-ms", POLL_MS) as at:
        for name, url in (("h1", at["plain"]), ("h2", at["tls"])):
            rows += long_polls(name, url, at["ca"], build_dir, make_row)
    return rows
