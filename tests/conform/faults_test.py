"""Each law of `tinker conform` catches the fault that was planted for it (tests/support/tinker_server/faults.py)."""

import concurrent.futures
import sys
import unittest

from harness import REFUSED, SERVER, conform, list_laws, server, verdicts

sys.path.insert(0, str(SERVER))

import faults  # noqa: E402

AT_ONCE = 4


def check(law):
    """What is wrong with how the law meets its fault; nothing when it catches it."""
    with server("--fault", law) as url:
        run = conform(url, "--only", law, "--json")
    laws, _ = verdicts(run) if run.stdout else ({}, {})
    if run.returncode != REFUSED or laws.get(law, {}).get("verdict") != "fail":
        return f"ended with {run.returncode}: {run.stdout}{run.stderr}"
    return None


class Faults(unittest.TestCase):
    maxDiff = None

    def test_are_planted_for_every_law(self):
        self.assertEqual(sorted(faults.FAULTS), sorted(law["id"] for law in list_laws()))

    def test_are_caught_when_they_are_late(self):
        self.assertIsNone(check("limits.long_poll"))

    def test_are_each_caught(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            found = dict(zip(faults.FAULTS, pool.map(check, faults.FAULTS)))

        self.assertEqual({law: problem for law, problem in found.items() if problem}, {})


if __name__ == "__main__":
    unittest.main()
