"""Compares two builds of this project: `./dev bench --against REVISION [NAME...]`.

The programs of both builds take turns on the same work, and the best of each counts, so that a busy moment of the machine
does not decide. All numbers are costs: less is better. Clients talk to one server, that of the older build, and count
their own processor time. A row that is slower by more than LIMIT is measured again, RETRIES times, before it is believed;
then the command fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import client_area
import http_area
import run as wire_area
import tokenizer_area

LIMIT = 0.03
ROUNDS = 3
RETRIES = 4


def run_lines(*command):
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


class Work:
    """Something that both builds can do: `measure(build_dir)` gives {row: cost}."""

    def __init__(self, measure, unit):
        self.measure, self.unit = measure, unit


def wire_works(_before, _folder):
    def measure(build):
        rows = wire_area.run_ours(build / "bin" / "wire_bench")
        return {f"wire: {name}": cost for name, (cost, _) in rows.items() if name != "memcpy"}

    yield Work(measure, "ms")


def http_works(before, _folder):
    for protocol, address in (("h1", "plain"), ("h2", "tls")):
        for in_flight in http_area.IN_FLIGHT:

            def measure(build, protocol=protocol, address=address, in_flight=in_flight):
                with http_area.server(before) as at:
                    work = ("small", in_flight, http_area.OUR_REQUESTS)
                    result = http_area.run_ours(build, at[address], at["ca"], *work)
                cost = result["cpu_seconds"] / result["requests"] * 1e6
                return {f"http: {protocol}, {in_flight} in flight, CPU per request": cost}

            yield Work(measure, "us")


def client_works(before, _folder):
    samples = ("sample", client_area.OUR_CALLS, client_area.IN_FLIGHT, "--warmup", client_area.IN_FLIGHT)
    size = ("--data", client_area.DATA, "--prompt-tokens", client_area.TOKENS, "--warmup", 1)
    steps = ("train", client_area.OUR_STEPS, 1, *size)
    polls = ("--poll-ms", client_area.POLL_MS)
    settings = [
        ("sample, single polls", samples, polls),
        ("sample, batched polls", samples, (*polls, "--client-config", client_area.BATCHED)),
        ("train step", steps, ()),
    ]
    for name, call, server_options in settings:
        for protocol, address in (("h1", "plain"), ("h2", "tls")):

            def measure(build, name=name, call=call, options=server_options, protocol=protocol, address=address):
                with http_area.server(before, *options) as at:
                    result = client_area.run_ours(build, at[address], at["ca"], *call)
                return {f"client: {name}, {protocol}, CPU per call": result["cpu_seconds"] / result["calls"] * 1e6}

            yield Work(measure, "us")


def tokenizer_works(_before, folder):
    texts = tokenizer_area.write_texts(folder)
    python = tokenizer_area.ROOT / "build" / "venv" / "tokenizers" / "bin" / "python"
    train = [python, tokenizer_area.HERE / "tokenizer_peer.py", "train", folder / "trained", texts[""]]
    subprocess.run(train, check=True)
    for row, file in tokenizer_area.TRAINED.items():

        def measure(build, row=row, file=file):
            result = tokenizer_area.run(build / "bin" / "tokenizer_bench", folder / file, *texts.values())
            costs = {f"tokenizer: load {row}": result["load"]["seconds"] * 1e3}
            for name, text in zip(texts, result["texts"]):
                costs[f"tokenizer: encode {name or 'all'}, {row}"] = text["encode"]["cpu"] * 1e3
                costs[f"tokenizer: decode {name or 'all'}, {row}"] = text["decode"]["cpu"] * 1e3
            return costs

        yield Work(measure, "ms")


def engine_works(before, folder):
    for model in ("d512", "smollm2"):
        subprocess.run([before / "bin" / "engine_bench", "make", model, folder / model], check=True)
        for what in ("lora_step", "prefill", "decode"):

            def measure(build, model=model, what=what):
                rows = run_lines(build / "bin" / "engine_bench", "model", folder / model, "--what", what)
                return {
                    f"engine: {model}, {what}{' of ' + format(row['batch'], '.0f') if 'batch' in row else ''}": row["seconds"] * 1e3
                    for row in rows
                    if "seconds" in row
                }

            yield Work(measure, "ms")


AREAS = {
    "wire": wire_works,
    "http": http_works,
    "client": client_works,
    "tokenizer": tokenizer_works,
    "engine": engine_works,
}


def keep_best(best, costs):
    for name, cost in costs.items():
        best[name] = min(best.get(name, cost), cost)


def slower(old, new):
    return [name for name in old if new[name] > old[name] * (1 + LIMIT)]


def compare(work, before, after):
    """({row: cost} before, the same after)"""
    old, new = {}, {}
    for turn in range(ROUNDS + RETRIES):
        if turn >= ROUNDS and not slower(old, new):
            break
        builds = [(before, old), (after, new)]
        for build, best in builds if turn % 2 == 0 else reversed(builds):
            keep_best(best, work.measure(build))
    return old, new


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(AREAS)}; all unless given")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(AREAS)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: expected some of {', '.join(AREAS)}")
    failed = []
    print("| | before | after | after / before |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for area in arguments.names or AREAS:
            for work in AREAS[area](arguments.before, pathlib.Path(folder)):
                old, new = compare(work, arguments.before, arguments.after)
                failed += slower(old, new)
                for name in old:
                    ratio = new[name] / old[name]
                    mark = " **slower**" if ratio > 1 + LIMIT else ""
                    print(f"| {name} | {old[name]:.4g} {work.unit} | {new[name]:.4g} {work.unit} | {ratio:.2f}{mark} |", flush=True)
    print(f"\n{len(failed)} rows are slower by more than {LIMIT:.0%}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
