"""`tinker serve --limit` and `--limits`; that a running server keeps to them: tests/server/limits_test.cc. CTest passes the command's
path in TINKER_COMMAND.
"""

import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("TINKER_COMMAND", str(ROOT / "build/dev/bin/tinker"))
GUIDE = (ROOT / "docs/guides/server.md").read_text()
MODEL = ("--model", "tiny=random:1x32,vocab=300")
TIMEOUT_S = 60
OK, REFUSED = 0, 1


def serve(*arguments):
    return subprocess.run([COMMAND, "serve", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)


class Limits(unittest.TestCase):
    def test_the_guide_has_the_table_of_the_code(self):
        outcome = serve("--limits")
        self.assertEqual((outcome.returncode, outcome.stderr), (OK, ""))
        self.assertGreater(len(outcome.stdout.splitlines()), 20)
        self.assertIn("\n\n" + outcome.stdout + "\n", GUIDE, "copy what `tinker serve --limits` prints")

    def test_refuses_what_is_no_limit(self):
        for limit, expected in (
            ("speed=1", "'speed': expected one of connections, streams, head_bytes"),
            ("samples=many", "limit samples: expected a whole number from 1 to 1000000000, found 'many'"),
            ("poll_time=1day", "a time such as 30s, 500ms, 10min or 24h"),
            ("samples", "expected NAME=VALUE, found 'samples'"),
        ):
            with self.subTest(limit=limit):
                outcome = serve(*MODEL, "--limit", "json_bytes=1MiB", "--limit", limit)
                self.assertEqual(outcome.returncode, REFUSED)
                self.assertIn(expected, outcome.stderr)


if __name__ == "__main__":
    unittest.main()
