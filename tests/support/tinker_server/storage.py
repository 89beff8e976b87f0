"""Signed URLs: the files of a checkpoint, whole or in ranges, and all of them as one archive."""

import base64
import hashlib
import io
import json
import re
import tarfile

from http1 import Response

ARCHIVE = "archive.tar"
FILES = ("adapter_config.json", "adapter_model.safetensors", "checkpoint_complete")


def contents(model):
    rows = json.dumps({str(last): row for last, row in sorted(model.rows.items())}).encode()
    header = {"rows": {"dtype": "U8", "shape": [len(rows)], "data_offsets": [0, len(rows)]}}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return {
        "adapter_config.json": json.dumps({"peft_type": "LORA", "r": 16}).encode(),
        "adapter_model.safetensors": len(head).to_bytes(8, "little") + head + rows,
        "checkpoint_complete": b"",
    }


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def answer(checkpoints, request):
    if "signature" not in request.query or "x-api-key" in request.headers:
        return Response({"detail": "signed URLs need their signature and nothing else"}, 403)
    path, _, name = request.path.removeprefix("/storage/").rpartition("/")
    checkpoint = checkpoints.get("tinker://" + path)
    if checkpoint is None:
        return Response({"detail": f"no object '{request.path}'"}, 404)
    files = contents(checkpoint["model"])
    data = archive(files) if name == ARCHIVE else files[name]
    digest = hashlib.md5(data).digest()
    headers = {"ETag": f'"{digest.hex()}"', "Accept-Ranges": "bytes"}
    headers["x-goog-hash"] = "md5=" + base64.b64encode(digest).decode()
    kind = "application/octet-stream"
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if not asked:
        return Response(data, content_type=kind, headers=headers)
    first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
    if first >= len(data):
        return Response(b"", 416, kind, {**headers, "Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
    return Response(data[first : last + 1], 206, kind, headers)
