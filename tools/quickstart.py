#!/usr/bin/env python3
"""Fine-tunes a real model through the embedded server: quickstart.py [--bin FOLDER] [--data FOLDER]

Starts `tinker serve` with SmolLM2-135M, which is fetched (fetch_smollm2.py), runs the recipes 20_sft and 21_rl against it, starts
it again with the same data, and asks the checkpoints. Ends with the scores before and after.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

import fetch_smollm2

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = "smollm2"  # what clients call it
STOP_SECONDS = 60
SCORE = r"^(?:before|after): (.*)$"
SAVED = r"^saved (tinker://\S+)$"
QUESTIONS = {
    "20_sft": ["The road trip was outstanding.", "What an appalling monitor!"],  # not trained on
    "21_rl": ["What is the capital of Kenya?", "What is the capital of Finland?"],
}


@contextlib.contextmanager
def served(tinker, model, data):
    """The environment of clients of a server with this model and this data folder."""
    data.mkdir(parents=True, exist_ok=True)
    command = [tinker, "serve", "--model", f"{MODEL}={model}", "--data-dir", data, "--port", "0", "--json"]
    print("$", shlex.join(map(str, command)), flush=True)
    with (data.parent / "server.log").open("ab") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as server:
        try:
            first = server.stdout.readline()
            if not first.startswith(b'{"event":"ready"'):
                sys.exit(f"the server did not start: {first.decode(errors='replace')} See {log.name}")
            threading.Thread(target=shutil.copyfileobj, args=(server.stdout, log), daemon=True).start()
            yield {**os.environ, "TINKER_BASE_URL": json.loads(first)["url"], "TINKER_API_KEY": "tml-local"}
            server.terminate()
            if server.wait(STOP_SECONDS) != 0:
                sys.exit(f"the server ended with {server.returncode}; see {log.name}")
        finally:
            server.kill()


def shown(command, environment):
    """Runs a command and shows what it prints; yields that, and its exit status."""
    print("$", shlex.join(map(str, command)), flush=True)
    lines = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return "".join(lines), process.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/quickstart/data", help="of the server")
    arguments = parser.parse_args()
    model = fetch_smollm2.fetch()

    results = {}  # recipe -> its output and how long it took
    with served(arguments.bin / "tinker", model, arguments.data) as environment:
        for recipe in QUESTIONS:
            start = time.monotonic()
            output, status = shown([arguments.bin / f"example_{recipe}"], environment)
            if status != 0:
                sys.exit(f"{recipe} did not reach its goal")
            results[recipe] = output, time.monotonic() - start

    print("\nThe server is started again; checkpoints are still there.", flush=True)
    with served(arguments.bin / "tinker", model, arguments.data) as environment:
        for recipe, questions in QUESTIONS.items():
            (checkpoint,) = re.findall(SAVED, results[recipe][0], re.MULTILINE)
            _, status = shown([arguments.bin / "example_25_ask", model, checkpoint, *questions], environment)
            if status != 0:
                sys.exit("the checkpoint did not answer")

    print("\non held-out items:")
    for recipe, (output, seconds) in results.items():
        before, after = re.findall(SCORE, output, re.MULTILINE)
        print(f"  {recipe:7} {seconds:4.0f} s   before: {before}\n{'':19}after:  {after}")


if __name__ == "__main__":
    main()
