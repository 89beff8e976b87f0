#!/usr/bin/env python3
"""Writes archives/: the same files as GNU tar and Python's tarfile pack them. Run it in this folder."""

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

LONG = "model/" + "/".join(["a-rather-long-folder-name"] * 5) + "/adapter_model.safetensors"
FILES = {
    "adapter_config.json": b'{"r":32}\n',
    "empty": b"",
    LONG: bytes(range(256)) * 5,
    "checkpoint_complete": b"x" * 512,
}


def write_python(out: Path, form: int) -> None:
    with tarfile.open(out, "w:gz", format=form, compresslevel=9) as archive:
        folder = tarfile.TarInfo("model")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def write_gnu(out: Path, form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in FILES.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        options = ["--sort=name", "--mtime=2026-01-01", "--owner=0", "--group=0", "--numeric-owner"]
        subprocess.run(["tar", "-czf", out, f"--format={form}", *options, "-C", folder, "."], check=True)


def main() -> None:
    folder = Path(__file__).resolve().parent / "archives"
    folder.mkdir(exist_ok=True)
    for name in ["gnu", "ustar", "pax"]:
        write_gnu(folder / f"tar_{name}.tar.gz", name)
    for name in ["GNU", "USTAR", "PAX"]:
        write_python(folder / f"python_{name.lower()}.tar.gz", getattr(tarfile, f"{name}_FORMAT"))


if __name__ == "__main__":
    main()
