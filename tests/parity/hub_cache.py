"""The cache of models' files, shared with the Python hub client: what one brings the other finds."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

from hub_server import HubServer  # noqa: E402

QWEN = (ROOT / "tests/golden/tokenizer/qwen.json").read_bytes()
DOWNLOAD = "import huggingface_hub as h; print(h.hf_hub_download('org/model', 'tokenizer.json'))"
FIND = "import huggingface_hub as h; print(h.hf_hub_download('org/model', 'tokenizer.json', local_files_only=True))"
ABSENT = (
    "import huggingface_hub as h; "
    "print(h.try_to_load_from_cache('org/model', 'tokenizer.json') is h._CACHED_NO_EXIST)"
)
TIMEOUT_S = 120


class HubCache(unittest.TestCase):
    command = ""

    def setUp(self):
        self.hub = self.enterContext(HubServer())
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.repository = self.hub.add("org/model")

    def start(self, arguments, **variables):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS"))}
        environment = {**kept, "HF_ENDPOINT": self.hub.url(), "HF_HOME": str(self.home), "HF_HUB_DISABLE_TELEMETRY": "1", **variables}
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def python(self, script, **variables):
        return self.start([sys.executable, "-c", script], **variables)

    def ours(self, **variables):
        return self.start([self.command, "tokenize", "--model", "org/model", "--ids", "Hello"], **variables)

    def finish(self, process, status=0):
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, status, stderr)
        return stdout.strip()

    def serve(self, large):
        self.repository.large = {"tokenizer.json"} if large else set()
        return self.repository.commit({"tokenizer.json": QWEN})

    def test_finds_what_python_brought(self):
        for large in (False, True):
            with self.subTest(large=large):
                self.serve(large)
                self.finish(self.python(DOWNLOAD))
                self.assertNotEqual(self.finish(self.ours(HF_HUB_OFFLINE="1")), "")

    def test_python_finds_what_we_brought(self):
        for large in (False, True):
            with self.subTest(large=large):
                commit = self.serve(large)
                self.finish(self.ours())
                path = pathlib.Path(self.finish(self.python(FIND, HF_HUB_OFFLINE="1")))
                self.assertEqual(path, self.home / "hub/models--org--model/snapshots" / commit / "tokenizer.json")
                self.assertEqual(path.read_bytes(), QWEN)

    def test_python_knows_what_we_did_not_find(self):
        self.repository.commit({"README.md": b""})
        self.finish(self.ours(), status=1)
        self.assertEqual(self.finish(self.python(ABSENT)), "True")

    def test_both_at_once(self):
        self.serve(large=True)
        self.hub.pause_s = 0.2
        processes = [self.ours(), self.python(DOWNLOAD), self.ours(), self.python(DOWNLOAD)]
        for process in processes:
            self.assertNotEqual(self.finish(process), "")
        blobs = list((self.home / "hub/models--org--model/blobs").iterdir())
        self.assertEqual([blob.read_bytes() for blob in blobs], [QWEN])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tinker", required=True)
    arguments, rest = parser.parse_known_args()
    HubCache.command = arguments.tinker
    unittest.main(argv=[sys.argv[0], *rest])
