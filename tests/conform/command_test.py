"""`tinker conform` as a process, against a server that keeps the laws."""

import re
import signal
import subprocess
import unittest

from harness import INTERRUPTED, OK, REFUSED, ROOT, TIMEOUT_S, USAGE, COMMAND
from harness import arguments, ask, conform, list_laws, server, verdicts

GUIDE = ROOT / "docs/guides/conform.md"
# What the server lacks, and the reason that must be given.
UNDECIDED = {"wire.zstd_bodies": "flag proto_compress_fwdbwd is off"}


def usage(*more):
    return subprocess.run([str(COMMAND), "conform", *more], capture_output=True, text=True, timeout=TIMEOUT_S)


class Report(unittest.TestCase):
    maxDiff = None

    def test_says_that_a_server_keeps_the_laws(self):
        with server() as url:
            run = conform(url, "--json")

        laws, summary = verdicts(run)
        self.assertEqual({id: law["evidence"] for id, law in laws.items() if law["verdict"] == "fail"}, {})
        self.assertEqual({id: law["evidence"] for id, law in laws.items() if law["verdict"] == "skip"}, UNDECIDED)
        self.assertEqual(list(laws), [law["id"] for law in list_laws()])
        self.assertEqual((summary["failed"], summary["left_behind"], run.returncode, run.stderr), (0, 0, OK, ""))

    def test_counts_what_each_law_costs(self):
        with server() as url:
            laws, summary = verdicts(conform(url, "--only", "losses.zero_weights", "--only", "sampling.lengths", "--json"))

        self.assertGreater(laws["losses.zero_weights"]["trained_tokens"], 0)
        self.assertGreater(laws["sampling.lengths"]["sampled_tokens"], 0)
        for kind in ("trained_tokens", "sampled_tokens"):
            self.assertEqual(sum(law[kind] for law in laws.values()), summary[kind])

    def test_for_people_is_a_table(self):
        with server() as url:
            run = conform(url, "--only", "wire.health", "--only", "wire.zstd_bodies")

        self.assertEqual(run.returncode, OK)
        self.assertRegex(run.stdout, r"(?m)^pass  wire\.health +GET healthz")
        self.assertRegex(run.stdout, r"(?m)^skip  wire\.zstd_bodies .*\n +flag proto_compress_fwdbwd is off$")
        self.assertRegex(run.stdout, r"(?m)^1 laws hold, 0 are broken, 1 could not be decided; ")

    def test_shows_the_evidence_of_a_broken_law(self):
        with server("--fault", "wire.health") as url:
            run = conform(url, "--only", "wire.health")

        self.assertEqual(run.returncode, REFUSED)
        self.assertRegex(run.stdout, r'(?m)^FAIL  wire\.health .*\n +GET /api/v1/healthz -> 200 \{"status":"fine"\}')

    def test_of_a_group_has_its_laws_and_no_slow_ones_when_it_must_be_fast(self):
        with server() as url:
            laws, _ = verdicts(conform(url, "--only", "limits", "--fast", "--json"))

        self.assertEqual(list(laws), ["limits.finished_session"])


class Traces(unittest.TestCase):
    """What is left on the server."""

    def assert_clean(self, url):
        self.assertEqual(ask(url, "/api/v1/checkpoints?limit=100&offset=0")[1]["checkpoints"], [])
        sessions = ask(url, "/api/v1/sessions")[1]["sessions"]
        self.assertGreater(len(sessions), 0)
        for session in sessions:
            self.assertEqual(ask(url, "/api/v1/session_heartbeat", {"session_id": session})[0], 410)

    def test_are_none_after_a_run(self):
        with server() as url:
            conform(url, "--only", "checkpoints", "--only", "catalogue")
            self.assert_clean(url)

    def test_are_none_after_broken_laws(self):
        with server("--fault", "catalogue.taken_name") as url:
            self.assertEqual(conform(url, "--only", "catalogue.taken_name").returncode, REFUSED)
            self.assert_clean(url)

    def test_are_none_after_an_interrupt(self):
        with server("--fault", "limits.long_poll") as url:
            laws = ("--only", "checkpoints.paths", "--only", "limits.long_poll", "--json")
            process = subprocess.Popen(arguments(url, *laws), stdout=subprocess.PIPE, text=True)
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=TIMEOUT_S)

            self.assertEqual(process.returncode, INTERRUPTED)
            self.assert_clean(url)


class Usage(unittest.TestCase):
    def assert_refused(self, run, status, part):
        self.assertEqual((run.returncode, run.stdout), (status, ""))
        self.assertIn(part, run.stderr)

    def test_needs_a_server(self):
        self.assert_refused(usage(), USAGE, "--base-url")

    def test_names_a_law_that_does_not_exist(self):
        self.assert_refused(usage("--list", "--only", "wire.heath"), USAGE, "'wire.heath'")

    def test_names_an_address_that_is_none(self):
        self.assert_refused(usage("--base-url", "not a url"), USAGE, "not a url")

    def test_says_that_there_is_no_server(self):
        self.assert_refused(usage("--base-url", "http://127.0.0.1:9"), REFUSED, "/api/v1/client/config")


class Guide(unittest.TestCase):
    maxDiff = None

    def test_lists_the_laws(self):
        expected = [f"| {law['id']} | {law['law']} | {law['cost']} |" for law in list_laws()]

        self.assertEqual(re.findall(r"(?m)^\| \w+\.\w+ \|.*$", GUIDE.read_text()), expected)


if __name__ == "__main__":
    unittest.main()
