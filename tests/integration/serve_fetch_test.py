"""`tinker serve` with models that a hub on this machine has (tests/support/hub_server.py). CTest passes the command's path in
TINKER_COMMAND and in TINKER_MAKE_MODEL a program that writes a small model.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

from hub_server import HubServer  # noqa: E402

COMMAND = os.environ.get("TINKER_COMMAND", str(ROOT / "build/dev/bin/tinker"))
MAKE_MODEL = os.environ.get("TINKER_MAKE_MODEL", str(ROOT / "build/dev/bin/make_tiny_model"))
TIMEOUT_S = 60  # of one run; a deadlock ends here
REFUSED = 1
NAME = "org/model"
TOKENIZER = (ROOT / "tests/golden/tokenizer/qwen.json").read_bytes()


def shards_of(content):
    """A safetensors file as two, and their index."""
    (size,) = struct.unpack("<Q", content[:8])
    tensors = json.loads(content[8 : 8 + size])
    tensors.pop("__metadata__", None)
    out, weight_map, names = {}, {}, sorted(tensors)
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file, header, data = f"model-{number:05}-of-00002.safetensors", {}, b""
        for name in part:
            begin, end = tensors[name]["data_offsets"]
            header[name] = tensors[name] | {"data_offsets": [len(data), len(data) + end - begin]}
            data += content[8 + size + begin : 8 + size + end]
            weight_map[name] = file
        text = json.dumps(header).encode()
        out[file] = struct.pack("<Q", len(text)) + text + data
    return out | {"model.safetensors.index.json": json.dumps({"weight_map": weight_map}).encode()}


class Fetch(unittest.TestCase):
    def setUp(self):
        self.hub = self.enterContext(HubServer())
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.cache = self.home / "hub"
        folder = self.home / "made"
        subprocess.run([MAKE_MODEL, folder], check=True, timeout=TIMEOUT_S)
        self.files = {file.name: file.read_bytes() for file in folder.iterdir()}
        self.files |= {"tokenizer.json": TOKENIZER, "README.md": b"not wanted"}
        self.weights = self.files["model.safetensors"]
        self.repository = self.hub.add(NAME)
        self.repository.large = {"model.safetensors"}
        self.commit = self.repository.commit(self.files)

    def cut_weights(self, *cuts):
        """How many bytes of the weights the next answers bring: small files come first."""
        self.hub.cut = [None] * (len(self.files) - 2) + list(cuts)  # all but README.md and the weights

    def folder(self, *parts):
        return self.cache.joinpath("models--org--model", *parts)

    def start(self, *arguments, model=NAME, stdout=subprocess.PIPE, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS", "TINKER_"))}
        environment |= {"HF_ENDPOINT": self.hub.url(), "HF_HOME": str(self.home), **variables}
        return subprocess.Popen(
            [COMMAND, "serve", "--model", model, "--port", "0", *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment
        )

    def serve(self, *arguments, **options):
        """The events of a server that came up, and the models that it then had."""
        process = self.start("--json", *arguments, **options)
        try:
            events = []
            for line in process.stdout:
                events.append(json.loads(line))
                if events[-1]["event"] == "ready":
                    break
            self.assertTrue(events and events[-1]["event"] == "ready", process.stderr.read() if process.poll() is not None else events)
            request = urllib.request.Request(events[-1]["url"] + "/api/v1/get_server_capabilities", headers={"X-API-Key": "tml-x"})
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                models = json.load(answer)["supported_models"]
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(TIMEOUT_S), 0)
            return events, [model["model_name"] for model in models]
        finally:
            process.kill()
            process.communicate()

    def refused(self, *parts, **options):
        process = self.start(*options.pop("arguments", ()), **options)
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, REFUSED, stdout + stderr)
        for part in parts:
            self.assertIn(part, stderr)
        self.assertNotIn("serves", stdout)

    def fetched(self, events):
        return [event for event in events if event["event"] == "fetch"]

    def test_asks_no_hub_with_options_that_no_server_can_have(self):
        self.refused("0.0.0.0", "--api-key-file", arguments=["--host", "0.0.0.0"])
        self.assertEqual(self.hub.requests, [])

    def test_fetches_a_whole_model_as_the_python_tools_keep_it(self):
        events, models = self.serve()
        self.assertEqual(models, [NAME])
        wanted = {name: content for name, content in self.files.items() if name != "README.md"}
        here = {path.name: path.read_bytes() for path in self.folder("snapshots", self.commit).iterdir()}
        self.assertEqual(here, wanted)
        self.assertEqual(self.folder("refs", "main").read_text(), self.commit)
        digest = hashlib.sha256(self.weights).hexdigest()
        self.assertEqual(os.readlink(self.folder("snapshots", self.commit, "model.safetensors")), f"../../blobs/{digest}")
        total = sum(map(len, wanted.values()))
        self.assertEqual(self.fetched(events)[-1], {"event": "fetch", "model": NAME, "bytes": total, "total_bytes": total})

    def test_fetches_it_once(self):
        self.serve()
        self.hub.requests.clear()
        events, models = self.serve()
        self.assertEqual((models, self.fetched(events), self.hub.requests), ([NAME], [], []))

    def test_gives_it_another_name(self):
        _, models = self.serve("--model", f"plain/{NAME.split('/')[1]}=random:1x64,vocab=512", model=f"hosted/large={NAME}")
        self.assertEqual(models, ["hosted/large", "plain/model"])

    def test_fetches_weights_in_several_files(self):
        shards = shards_of(self.weights)
        del self.files["model.safetensors"]
        self.repository.large = set(shards) - {"model.safetensors.index.json"}
        commit = self.repository.commit(self.files | shards | {"pytorch_model.bin": b"x"})
        _, models = self.serve()
        self.assertEqual(models, [NAME])
        for name, content in shards.items():
            self.assertEqual(self.folder("snapshots", commit, name).read_bytes(), content)
        self.assertFalse(self.folder("snapshots", commit, "pytorch_model.bin").exists())

    def test_goes_on_after_the_connection_broke_often(self):
        self.cut_weights(*[9000] * 6)
        self.serve()
        ranges = [r[3].get("Range") for r in self.hub.requests if r[0] == "storage"]
        self.assertIn("bytes=9000-", ranges)
        self.assertIn("bytes=54000-", ranges)
        self.assertEqual(self.folder("snapshots", self.commit, "model.safetensors").read_bytes(), self.weights)

    def test_a_later_start_takes_up_what_came(self):
        self.cut_weights(60_000, *[0] * 20)
        self.refused(NAME)
        self.assertFalse(self.folder("refs", "main").exists(), "half a model has no name")
        self.hub.cut.clear()
        self.hub.requests.clear()
        self.serve()
        self.assertIn("bytes=60000-", [r[3].get("Range") for r in self.hub.requests])
        self.assertEqual(self.folder("snapshots", self.commit, "model.safetensors").read_bytes(), self.weights)

    def test_a_signal_ends_it_at_once(self):
        self.hub.pause_s = TIMEOUT_S
        process = self.start()
        while not self.hub.requests:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT_S / 2), -signal.SIGINT)
        process.communicate()

    def test_waits_for_another_process_that_brings_a_file(self):
        lock = self.cache / ".locks/models--org--model" / (hashlib.sha256(self.weights).hexdigest() + ".lock")
        lock.parent.mkdir(parents=True)
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            process = self.start()
            while "model.safetensors at" not in (line := process.stdout.readline()):
                self.assertIsNone(process.poll(), line)
        self.assertIn("another process brings it", line)
        while not line.startswith("tinker"):
            line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)

    def test_never_serves_what_came_damaged(self):
        self.hub.damaged = 100
        self.refused(NAME, "damaged", "checksum")
        self.assertFalse(self.folder("refs", "main").exists())

    def test_shows_a_bar_on_a_terminal(self):
        ours, theirs = pty.openpty()
        process = self.start(stdout=theirs)
        os.close(theirs)
        text = ""
        while "Ctrl-C stops it" not in text:
            text += os.read(ours, 65536).decode()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        self.assertRegex(text, r"fetching org/model \[#*-*\] \d+ %, [\d.]+ MB of [\d.]+ MB")
        self.assertIn("[" + "#" * 30 + "] 100 %", text)

    def test_prints_lines_elsewhere(self):
        process = self.start()
        lines = []
        while not lines or not lines[-1].startswith("tinker"):
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual([line.split(",")[0] for line in lines][-2], "fetching org/model: 100 %")
        self.assertNotIn("\x1b", "".join(lines))

    def test_asks_nobody_offline(self):
        for options in ({"arguments": ["--offline"]}, {"HF_HUB_OFFLINE": "1"}):
            with self.subTest(options=options):
                self.refused(NAME, "not in the hub's cache", str(self.cache), "--offline", **options)
        self.assertEqual(self.hub.requests, [])
        self.serve()
        self.hub.requests.clear()
        self.assertEqual(self.serve("--offline")[1], [NAME])
        self.assertEqual(self.hub.requests, [])

    def test_says_when_the_hub_cannot_be_reached(self):
        self.hub.stop()
        self.refused("model org/model from " + self.hub.url(), "connect")

    def test_says_what_is_not_there_or_not_for_everybody(self):
        self.refused("org/other", "HF_TOKEN", "401", model="org/other")
        self.refused("org/other", "404", model="org/other", HF_TOKEN="hf_x")
        self.repository.gated, self.repository.token = True, "hf_good"
        self.refused("is gated", f"{self.hub.url()}/org/model", "set HF_TOKEN", "401")
        self.refused("is gated", "403", HF_TOKEN="hf_bad")
        self.assertEqual(self.serve(HF_TOKEN="hf_good")[1], [NAME])

    def test_refuses_before_the_weights_what_the_engine_cannot_run(self):
        config = json.loads(self.files["config.json"]) | {"model_type": "mamba"}
        self.repository.commit(self.files | {"config.json": json.dumps(config).encode()})
        self.refused(NAME, "config.json", "mamba")
        self.assertEqual([r for r in self.hub.requests if r[0] == "storage" or "safetensors" in r[2]], [])

    def test_refuses_before_the_weights_what_the_disk_has_no_room_for(self):
        self.hub.sizes = {"model.safetensors": 1 << 60}
        self.refused(NAME, "has no room", str(1 << 60)[:6])
        self.assertEqual([r for r in self.hub.requests if "safetensors" in r[2]], [])

    def test_says_what_to_do_with_a_repository_without_safetensors(self):
        self.repository.commit({"README.md": b"", "model-Q4.gguf": b"x"})
        self.refused(NAME, "GGUF only", "download org/model model-Q4.gguf", "--model NAME=PATH")
        self.repository.commit({"config.json": self.files["config.json"], "pytorch_model.bin": b"x"})
        self.refused(NAME, "found no model.safetensors")

    def test_a_name_that_no_hub_has_is_refused_at_once(self):
        self.refused("no source is given", model="not a name")
        self.refused("models", "cannot be read", model="a=models")
        self.assertEqual(self.hub.requests, [])


if __name__ == "__main__":
    unittest.main()
