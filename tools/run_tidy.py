#!/usr/bin/env python3
"""Runs clang-tidy over every file of a compile database, and remembers which files had no finding.

    tools/run_tidy.py --tidy PROGRAM --build-dir FOLDER [FILE...]

Without FILEs, all of the database. A file is read again when its text, its command, a .clang-tidy above it, the version of clang-tidy,
or any header of the project that it includes, directly or not, has changed. What system headers say is taken for granted.
Prints the findings, then one line of counts; exit status 1 if there is any finding.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
ROOTS = [ROOT / folder for folder in ("include", "src", "tests")]


@functools.cache
def includes_of(path):
    """The hash of a file, and the files of the project that it names. Includes that the preprocessor skips count as well."""
    text = path.read_bytes()
    found = []
    for name in INCLUDE.findall(text.decode(errors="replace")):
        for folder in (path.parent, *ROOTS):
            if (folder / name).is_file():
                found.append((folder / name).resolve())
                break
    return hashlib.sha256(text).hexdigest(), found


@functools.cache
def settings_of(folder):
    """The texts of the .clang-tidy files that hold for a folder."""
    files = [parent / ".clang-tidy" for parent in (folder, *folder.parents) if parent.is_relative_to(ROOT)]
    return "".join(file.read_text() for file in files if file.exists())


def fingerprint(entry, version):
    """What the findings of an entry depend on, as one text."""
    source = Path(entry["file"])
    settings = version + settings_of(source.parent)
    seen, waiting = {}, [source]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen[path], named = includes_of(path)
        waiting.extend(named)
    parts = [settings, entry["command"], *(f"{path} {seen[path]}" for path in sorted(seen))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check(tidy, build_dir, source):
    command = [tidy, "-quiet", "-p", build_dir, source]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    # Counts of warnings that it kept to itself go to stderr; a crash has nothing else to say.
    return ran.returncode == 0, ran.stdout or ran.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidy", required=True)
    parser.add_argument("--build-dir", required=True, type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()

    entries = json.loads((arguments.build_dir / "compile_commands.json").read_text())
    wanted = {file.resolve() for file in arguments.files}
    entries = [entry for entry in entries if not wanted or Path(entry["file"]) in wanted]
    if not entries:
        sys.exit(f"none of {len(arguments.files)} files is in {arguments.build_dir}/compile_commands.json")

    version = subprocess.run([arguments.tidy, "--version"], capture_output=True, text=True, check=True).stdout
    clean = arguments.build_dir / "clean"
    clean.mkdir(exist_ok=True)
    waiting = {}  # a file that several targets compile in the same way is read once
    for entry in entries:
        key = fingerprint({**entry, "command": re.sub(r" -o \S+", "", entry["command"])}, version)
        if not (clean / key).exists():
            waiting[key] = entry["file"]

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(check, arguments.tidy, arguments.build_dir, file): key for key, file in waiting.items()}
        for run in concurrent.futures.as_completed(runs):
            is_clean, output = run.result()
            if is_clean:
                (clean / runs[run]).touch()
            else:
                bad += 1
                print(output, end="", flush=True)
    print(f"{len(entries)} files: {len(waiting)} read, {bad} with findings; the others are as they were when they had none")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
