"""Runs benchmarks beside their peers and prints ratios: `./dev bench [NAME] [--peers] [--strict] [--json FILE]`.

NAME is an area with a NAME_bench program and, where it has a peer, a NAME_peer.py. Ours and the peer's runs take turns,
the best of each counts, so that a busy moment of the machine does not decide. Areas that need more than that, such as a
server, or that measure the `tinker` command, have a NAME_area.py with a `measure` of their own. Those whose peers take
gigabytes to install run without them in `measure` and with them, for --peers, in `measure_with_peers`.
"""

import argparse
import importlib
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROUNDS = 3


def run_ours(program):
    """{row: (milliseconds, bytes per second)} of a Google Benchmark program, the best of a few repetitions."""
    options = ["--benchmark_format=json", "--benchmark_repetitions=5", "--benchmark_min_time=0.1"]
    output = subprocess.run([program, *options], check=True, capture_output=True, text=True).stdout
    to_ms = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    best = {}
    for row in json.loads(output)["benchmarks"]:
        if row["run_type"] != "iteration":
            continue
        name = row["run_name"].removesuffix("/manual_time")
        result = (row["real_time"] * to_ms[row["time_unit"]], row.get("bytes_per_second"))
        best[name] = min(best.get(name, result), result)
    return best


def run_peer(script):
    if not script.exists():
        return None, {}
    output = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    result = json.loads(output.stdout)
    return result["peer"], result["milliseconds"]


def measure(area, build_dir, with_peers):
    """The rows of one area."""
    if (HERE / f"{area}_area.py").exists():
        module = importlib.import_module(f"{area}_area")
        run = getattr(module, "measure_with_peers", module.measure) if with_peers else module.measure
        return run(build_dir, make_row, ROUNDS)
    ours, peers, peer = {}, {}, None
    for _ in range(ROUNDS):
        for name, row in run_ours(build_dir / "bin" / f"{area}_bench").items():
            ours[name] = min(ours.get(name, row), row)
        peer, times = run_peer(HERE / f"{area}_peer.py")
        for name, value in times.items():
            peers[name] = min(peers.get(name, value), value)
    memcpy = ours.pop("memcpy", None)
    rows = []
    for name, (value, rate) in ours.items():
        peer_value = peers.get(name)
        rows.append(make_row(name, value, "ms", peer if peer_value else None, peer_value))
        if memcpy and rate:
            gbps, limit = rate / 1e9, memcpy[1] / 1e9
            rows.append(make_row(f"{name}, throughput", gbps, "GB/s", "memcpy", limit))
    return rows


def make_row(name, value, unit, peer, peer_value):
    """`ratio` is how many times better than the peer, whatever the unit. Without a value it was not measured."""
    ratio = None
    if value is not None and peer_value is not None:
        ratio = value / peer_value if unit.endswith("/s") else peer_value / value
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "peer": peer,
        "peer_value": peer_value,
        "ratio": ratio,
    }


def print_rows(rows):
    for row in rows:
        if row["value"] is None:
            print(f"{row['name']:50} not measured")
            continue
        line = f"{row['name']:50} {row['value']:10.3f} {row['unit']:7}"
        if row["peer"]:
            line += f"  {row['peer']}: {row['peer_value']:10.3f} {row['unit']:7} {row['ratio']:8.2f}x"
        if "verdict" in row:
            line += f"  {row['verdict']}"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--build-dir", type=pathlib.Path, required=True)
    arguments = parser.parse_args()

    programs = {path.name.removesuffix("_bench") for path in arguments.build_dir.glob("bin/*_bench")}
    areas = sorted(programs | {path.name.removesuffix("_area.py") for path in HERE.glob("*_area.py")})
    unknown = set(arguments.names) - set(areas)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: expected one of {', '.join(areas)}")
    rows = [
        row for area in arguments.names or areas for row in measure(area, arguments.build_dir, arguments.peers)
    ]
    print_rows(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    missed = [row["name"] for row in rows if row.get("verdict", "").endswith("missed")]
    if arguments.strict and missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
