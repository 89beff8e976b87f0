"""`tinker serve` keeps every law of `tinker conform`, in float32 and in bfloat16, and to five digits."""

import contextlib
import json
import subprocess
import tempfile
import threading
import unittest

from harness import COMMAND, OK, TIMEOUT_S, verdicts

MODEL = "tiny"
# Every flag is on; these laws may still say why they do not apply.
UNDECIDED = set()


@contextlib.contextmanager
def embedded_server(dtype):
    with tempfile.TemporaryDirectory() as folder:
        command = [str(COMMAND), "serve", "--model", f"{MODEL}=random:2x64,vocab=512", "--port", "0", "--data-dir", folder]
        # server.sdk_acceptance_long_polls holds polls for as long as the server does by itself.
        command += ["--dtype", dtype, "--limit", "poll_time=3s"]
        process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
        url = json.loads(process.stdout.readline())["url"]
        drain = threading.Thread(target=process.stdout.read)  # a full pipe would stop the server
        drain.start()
        try:
            yield url
        finally:
            process.terminate()
            drain.join()
            process.wait()
            process.stdout.close()


class EmbeddedServer(unittest.TestCase):
    maxDiff = None

    def assert_keeps_the_laws(self, dtype):
        with embedded_server(dtype) as url:
            command = [str(COMMAND), "conform", "--base-url", url, "--model", MODEL, "--tolerance", "1e-5"]
            run = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=TIMEOUT_S)

        laws, summary = verdicts(run)
        self.assertEqual({id: law["evidence"] for id, law in laws.items() if law["verdict"] == "fail"}, {})
        self.assertEqual({id for id, law in laws.items() if law["verdict"] == "skip"}, UNDECIDED)
        self.assertEqual((summary["failed"], summary["left_behind"], run.returncode), (0, 0, OK), run.stderr)

    def test_keeps_the_laws_in_float32(self):
        self.assert_keeps_the_laws("f32")

    def test_keeps_the_laws_in_bfloat16(self):
        self.assert_keeps_the_laws("bf16")


if __name__ == "__main__":
    unittest.main()
