"""What `tinker serve` says on standard output, as text and with --json. CTest passes the command's path in TINKER_COMMAND."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("TINKER_COMMAND", str(ROOT / "build/dev/bin/tinker"))
OPTIONS = ("--model", "tiny=random:1x32,vocab=300", "--model", "other=random:1x32,vocab=300", "--port", "0", "--threads", "2")
TIMEOUT_S = 60


@contextlib.contextmanager
def served(*options):
    """A server that ends with the block; what it prints is read from its `stdout`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [COMMAND, "serve", *OPTIONS, "--data-dir", folder, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()


def lines_until(process, last):
    """Up to the first line that contains `last`."""
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if last in line:
            return lines
    raise AssertionError(f"the server ended without {last!r}: {lines}")


class Banner(unittest.TestCase):
    def test_says_what_a_person_wants_to_know(self):
        with served("--memory", "4GB", "--dtype", "f32") as process:
            banner = "\n".join(lines_until(process, "Ctrl-C"))
        for pattern in (
            r"tinker \S+ serves tiny, other$",
            r"  url      http://127\.0\.0\.1:\d+$",
            r"  key      any that begins with tml-",
            r"  memory   at most 4096 MiB, of \d+ MiB that are free$",
            r"  kernels  (scalar|avx2|avx512|avx512bf16|amx) in f32, on 2 threads$",
            r"  data     /",
            rf"  process  {process.pid}$",
        ):
            self.assertRegex(banner, re.compile("^" + pattern, re.MULTILINE))

    def test_has_no_limit_of_memory_where_none_was_given(self):
        with served() as process:
            banner = lines_until(process, "Ctrl-C")
        self.assertEqual(sum(bool(re.fullmatch(r"  memory   \d+ MiB that are free", line)) for line in banner), 1, banner)

    def test_is_an_event_with_json(self):
        with served("--json", "--memory", "4GB") as process:
            ready = json.loads(process.stdout.readline())
        self.assertEqual(ready["event"], "ready")
        self.assertEqual(ready["models"], ["tiny", "other"])
        self.assertIn(ready["kernels"], ("scalar", "avx2", "avx512", "avx512bf16", "amx"))
        self.assertEqual((ready["dtype"], ready["threads"], ready["pid"]), ("bf16", 2, process.pid))
        self.assertEqual(ready["memory_limit_bytes"], 4 << 30)
        self.assertGreater(ready["free_bytes"], 0)


class Events(unittest.TestCase):
    def ask(self, url, path, body):
        request = urllib.request.Request(f"{url}/api/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def begin_session(self, url):
        return self.ask(url, "create_session", {"tags": [], "sdk_version": "0.36.0"})["session_id"]

    def test_are_lines_of_text(self):
        with served() as process:
            banner = lines_until(process, "Ctrl-C")
            url = next(line.split()[1] for line in banner if line.startswith("  url "))
            session = self.begin_session(url)
            self.assertEqual(process.stdout.readline(), f"session {session} begins, of local\n")

    def test_are_log_events_with_json(self):
        with served("--json") as process:
            session = self.begin_session(json.loads(process.stdout.readline())["url"])
            event = json.loads(process.stdout.readline())
        self.assertEqual(event, {"event": "log", "level": "info", "message": f"session {session} begins, of local"})


if __name__ == "__main__":
    unittest.main()
