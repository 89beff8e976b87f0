"""Runs the engine with a real model: run.py [--tests FILE] [--examples FOLDER]

The model is SmolLM2-135M-Instruct (tools/fetch_smollm2.py). Checks what the engine computes against the numbers of other
libraries, all of which must be there (tests/unit/engine/goldens.h says where), bf16 against f32, that both recipes reach their
goal on the embedded server, and that what they saved answers when the server was started again; ends with a table.
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import fetch_smollm2
import quickstart

SKIPPED = r"^\[  SKIPPED \] (\d+ tests?)"  # as GoogleTest counts them at the end


def run(name, command, environment, figure):
    """Shows what the command prints, and returns a line of the table, with all that it printed at the end. `figure` finds what is worth repeating there. A test
    that was skipped is one that failed: what it needs is not here."""
    print(f"\n== {name}", flush=True)
    start = time.monotonic()
    output, status = quickstart.shown(command, environment)
    found = re.findall(figure, output, re.MULTILINE)
    skipped = re.findall(SKIPPED, output, re.MULTILINE)
    # A program that does not say what it reached has not shown that it did.
    is_good = status == 0 and bool(found) and not skipped
    text = ", ".join([*found[-1:], *(f"{count} skipped" for count in skipped)])
    return is_good, name, time.monotonic() - start, text or "-", output


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "build/dev/bin/engine_test")
    parser.add_argument("--examples", type=pathlib.Path, default=ROOT / "build/release/bin")
    arguments = parser.parse_args()
    programs = ("tinker", "example_20_sft", "example_21_rl", "example_25_ask")
    tests, tinker, sft, rl, ask = arguments.tests, *(arguments.examples / name for name in programs)
    for program in (tests, tinker, sft, rl, ask):
        if not program.is_file():
            sys.exit(f"{program} is not there: ./dev build makes the examples, ./dev test the tests")
    model = fetch_smollm2.fetch()
    environment = {**os.environ, "TINKER_SMOLLM2": str(model)}

    def filtered(pattern):
        return [tests, "--gtest_brief=1", f"--gtest_filter={pattern}"]

    table = [
        run("goldens", filtered("engine_golden.*:SmolLm2.*:Stories260K.*"), environment,
            r"^\[  PASSED  \] ([1-9].*)\.$"),
        run("bf16", filtered("Precision.OfBf16IsNearF32OnSmolLm2"), environment, r"^KL\(f32 \|\| bf16\) (.*)$"),
        run("memory", filtered("Memory.OfAStepIsWhatWasEstimated"), environment, r"^1 x 2000 bf16: (.*)$"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        with quickstart.served(tinker, model, data) as served:
            table.append(run("sft", [sft], served, r"^after: (\d+ of \d+ right.*)$"))
            table.append(run("rl", [rl], served, r"^after: (\d+ of \d+ right, reward .*)$"))
        saved = re.findall(quickstart.SAVED, table[-2][-1], re.MULTILINE)
        with quickstart.served(tinker, model, data) as served:
            table.append(run("ask", [ask, model, *saved, "What an appalling monitor!"], served, r"-> (TECH/BAD)$"))
    print()
    for is_good, name, seconds, text, _ in table:
        print(f"{name:8} {'pass' if is_good else 'FAIL'} {seconds:6.0f} s  {text}")
    return 0 if all(row[0] for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
