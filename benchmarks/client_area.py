"""`./dev bench client`: whole calls, from their submission to their result, by `tinker bench` and by the official SDK.

The server answers a sample after 0 to 200 ms, a training step at once.
"""

import json
import os
import subprocess
import sys

from http_area import HERE, server

IN_FLIGHT = 2_000
OUR_CALLS = 20_000
PEER_CALLS = 4_000
POLL_MS = "0-200"
BATCHED = '{"sample_use_retrieve_futures":true}'
DATA, TOKENS = 512, 2_048
OUR_STEPS = 20
PEER_STEPS = 4


def run_ours(build_dir, url, ca, kind, calls, in_flight, *options):
    load = ["--base-url", url, "--ca-file", ca, "--calls", calls, "--in-flight", in_flight]
    command = [build_dir / "bin" / "tinker", "bench", kind, *load, *options, "--json"]
    environment = {**os.environ, "TINKER_API_KEY": "tml-benchmark"}
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, env=environment).stdout
    report = json.loads(output)
    if report["failed"]:
        raise RuntimeError(f"{report['failed']} of {calls} calls failed: {report['errors']}")
    return {
        "calls": report["calls"],
        "seconds": report["seconds"],
        "cpu_seconds": report["cpu_us_per_call"] * report["calls"] * 1e-6,
        "mib": report["rss_mib"],
    }


def run_peer(url, ca, kind, *numbers):
    command = [sys.executable, HERE / "client_peer.py", url, kind, *map(str, numbers)]
    environment = {**os.environ, "SSL_CERT_FILE": ca}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)


def best_of(runs):
    """The run with the least CPU per call: a busy moment of the machine does not decide."""
    return min(runs, key=lambda run: run["cpu_seconds"] / run["calls"])


def samples(name, url, ca, build_dir, make_row, rounds):
    warmup = ("--warmup", IN_FLIGHT)  # as the peer's
    ours = best_of([run_ours(build_dir, url, ca, "sample", OUR_CALLS, IN_FLIGHT, *warmup) for _ in range(rounds)])
    peer = run_peer(url, ca, "sample", IN_FLIGHT, PEER_CALLS)
    measures = [
        ("calls", "1/s", lambda run: run["calls"] / run["seconds"]),
        ("CPU per call", "us", lambda run: run["cpu_seconds"] / run["calls"] * 1e6),
        ("largest memory", "MiB", lambda run: run["mib"]),
    ]
    for what, unit, value in measures:
        label = f"sample {name} {IN_FLIGHT} in flight, {what}"
        yield make_row(label, value(ours), unit, peer["peer"], value(peer))


def steps(name, url, ca, build_dir, make_row, rounds):
    size = ("--data", DATA, "--prompt-tokens", TOKENS, "--warmup", 1)
    ours = best_of([run_ours(build_dir, url, ca, "train", OUR_STEPS, 1, *size) for _ in range(rounds)])
    peer = run_peer(url, ca, "train", DATA, TOKENS, PEER_STEPS)
    measures = [
        ("time", "ms", lambda run: run["seconds"] / run["calls"] * 1e3),
        ("CPU", "ms", lambda run: run["cpu_seconds"] / run["calls"] * 1e3),
        ("largest memory", "MiB", lambda run: run["mib"]),
    ]
    for what, unit, value in measures:
        yield make_row(f"train step {name} {DATA}x{TOKENS}, {what}", value(ours), unit, peer["peer"], value(peer))


def measure(build_dir, make_row, rounds):
    rows = []
    for polls, options in (("single", ()), ("batched", ("--client-config", BATCHED))):
        with server(build_dir, "--poll-ms", POLL_MS, *options) as at:
            for name, url in (("h1", at["plain"]), ("h2", at["tls"])):
                rows += samples(f"{name} {polls}", url, at["ca"], build_dir, make_row, rounds)
    with server(build_dir) as at:
        for name, url in (("h1", at["plain"]), ("h2", at["tls"])):
            rows += steps(name, url, at["ca"], build_dir, make_row, rounds)
    return rows
