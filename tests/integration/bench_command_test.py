"""`tinker bench` as a process, against the load server.

CTest passes the paths of both in TINKER_COMMAND and TINKER_LOAD_SERVER.
"""

import contextlib
import json
import os
import signal
import subprocess
import unittest
import urllib.request

COMMAND = os.environ.get("TINKER_COMMAND", "build/dev/bin/tinker")
SERVER = os.environ.get("TINKER_LOAD_SERVER", "build/dev/bin/tinker_load_server")
ENVIRONMENT = {**os.environ, "TINKER_API_KEY": "tml-test", "TINKER_TELEMETRY": "0"}
TIMEOUT_S = 60  # of one run; a deadlock ends here

OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130
BATCHED = '{"sample_use_retrieve_futures":true}'


@contextlib.contextmanager
def server(*options):
    """{"plain": URL, "tls": URL, "ca": FILE} of a load server."""
    process = subprocess.Popen([SERVER, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield dict(process.stdout.readline().split() for _ in range(3))
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def bench(*arguments, environment=ENVIRONMENT):
    command = [COMMAND, "bench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, text=True, env=environment)


def start(*arguments):
    command = [COMMAND, "bench", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def ask(url, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + path, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def load(url, calls, in_flight):
    return ("--base-url", url, "--calls", calls, "--in-flight", in_flight)


class BenchTest(unittest.TestCase):
    def assert_json(self, run, status=OK):
        """The report, beside which there are a few warnings at the most."""
        self.assertEqual(run.returncode, status)
        self.assertRegex(run.stderr, r"\A(tinker bench: [^\n]+\n){0,4}\Z")
        self.assertRegex(run.stdout, r"\A\{.*\}\n\Z")
        return json.loads(run.stdout)

    def assert_usage_error(self, run, part_of_message):
        self.assertEqual((run.returncode, run.stdout), (USAGE, ""))
        self.assertIn(part_of_message, run.stderr)

    def assert_all_succeeded(self, report, calls):
        self.assertEqual((report["calls"], report["failed"], report["errors"]), (calls, 0, {}))


class Report(BenchTest):
    def test_in_json_has_all_figures(self):
        with server() as at:
            report = self.assert_json(bench("sample", *load(at["plain"], 50, 10), "--json"))

        self.assert_all_succeeded(report, 50)
        self.assertEqual(list(report["latency_ms"]), ["p50", "p90", "p99", "max"])
        latencies = list(report["latency_ms"].values())
        self.assertEqual(latencies, sorted(latencies))
        for figure in (*latencies, report["calls_per_s"], report["cpu_us_per_call"], report["rss_mib"]):
            self.assertGreater(figure, 0)

    def test_for_people_is_a_table(self):
        with server() as at:
            run = bench("sample", *load(at["plain"], 5, 2))

        self.assertEqual((run.returncode, run.stderr), (OK, ""))
        self.assertRegex(run.stdout, r"(?m)^calls +5, 0 failed$")
        for label in ("time", "calls/s", "CPU per call", "latency", "peak memory"):
            self.assertRegex(run.stdout, rf"(?m)^{label} +\S")


class Calls(BenchTest):
    def test_of_samples_reach_the_server_over_http_2(self):
        with server() as at:
            run = bench("sample", *load(at["tls"], 20, 7), "--ca-file", at["ca"], "--json")

        self.assert_all_succeeded(self.assert_json(run), 20)

    def test_of_samples_work_with_batched_polls(self):
        with server("--client-config", BATCHED) as at:
            run = bench("sample", *load(at["plain"], 20, 7), "--json")

        self.assert_all_succeeded(self.assert_json(run), 20)

    def test_of_training_are_whole_steps(self):
        with server() as at:
            run = bench("train", *load(at["plain"], 6, 3), "--data", 4, "--prompt-tokens", 9, "--json")

        self.assert_all_succeeded(self.assert_json(run), 6)

    def test_of_the_warm_up_do_not_count(self):
        with server() as at:
            run = bench("sample", *load(at["plain"], 10, 5), "--warmup", 15, "--json")

        self.assert_all_succeeded(self.assert_json(run), 10)

    def test_under_way_are_as_many_as_allowed(self):
        with server("--fault", "fault=hold", "--fault-path", "/asample") as at:
            process = start("sample", *load(at["plain"], 12, 3), "--json")
            held = []
            while process.poll() is None:
                held.append(ask(at["plain"], "/stats")["held"])
                if held[-1] >= 3:
                    ask(at["plain"], "/release")
            stdout, _ = process.communicate()

        self.assert_all_succeeded(json.loads(stdout), 12)
        self.assertEqual(max(held), 3)

    def test_fewer_than_in_flight_are_enough(self):
        with server() as at:
            run = bench("sample", *load(at["plain"], 1, 1000), "--json")

        self.assert_all_succeeded(self.assert_json(run), 1)


class Errors(BenchTest):
    def test_are_counted_by_class(self):
        with server("--fault", "status=403", "--fault-path", "/asample", "--fault-count", "4") as at:
            run = bench("sample", *load(at["plain"], 10, 2), "--json")

        report = self.assert_json(run)
        self.assertEqual((report["calls"], report["failed"]), (10, 4))
        self.assertEqual(report["errors"], {"permission_denied 403": 4})

    def test_of_all_calls_are_the_command_s_own(self):
        with server("--fault", "status=422", "--fault-path", "/asample") as at:
            run = bench("sample", *load(at["plain"], 10, 20), "--json")

        report = self.assert_json(run, status=REFUSED)
        self.assertEqual(report["errors"], {"unprocessable 422": 10})
        self.assertEqual(set(report["latency_ms"].values()), {None})
        self.assertEqual(report["calls_per_s"], 0)

    def test_of_training_count_the_step_once(self):
        with server("--fault", "status=403", "--fault-path", "/forward_backward", "--fault-count", "1") as at:
            run = bench("train", *load(at["plain"], 3, 1), "--json")

        report = self.assert_json(run)
        self.assertEqual((report["failed"], report["errors"]), (1, {"permission_denied 403": 1}))

    def test_may_be_a_call_that_takes_too_long(self):
        with server("--fault", "fault=hang", "--fault-path", "/retrieve_future", "--fault-count", "1") as at:
            run = bench("sample", *load(at["plain"], 3, 1), "--timeout", 0.5, "--json")

        self.assertEqual(self.assert_json(run)["errors"], {"deadline_exceeded": 1})

    def test_before_the_first_call_are_told(self):
        with server("--fault", "status=403", "--fault-path", "/create_session") as at:
            run = bench("sample", *load(at["plain"], 3, 1), "--json")

        self.assertEqual((run.returncode, run.stdout), (REFUSED, ""))
        self.assertRegex(run.stderr, r"\Atinker bench: .*403")


class Interrupt(BenchTest):
    def test_prints_what_there_is(self):
        with server("--poll-ms", "0-1") as at:
            process = start("sample", *load(at["plain"], 10**9, 4), "--json")
            while ask(at["plain"], "/stats")["samples"] < 20:
                pass
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=TIMEOUT_S)

        self.assertEqual((process.returncode, stderr), (INTERRUPTED, ""))
        report = json.loads(stdout)
        self.assertGreater(report["calls"], 0)
        self.assertEqual(report["failed"], 0)


class Usage(BenchTest):
    ANY = ("--base-url", "http://127.0.0.1:9", "--calls", "1", "--in-flight", "1")

    def test_a_kind_of_call_is_needed(self):
        self.assert_usage_error(bench(), "subcommand")
        self.assert_usage_error(bench("dance", *self.ANY), "")

    def test_what_is_missing_is_named(self):
        for option in ("--base-url", "--calls", "--in-flight"):
            at = self.ANY.index(option)
            with self.subTest(option):
                self.assert_usage_error(bench("sample", *self.ANY[:at], *self.ANY[at + 2 :]), option)

    def test_numbers_out_of_range_are_named(self):
        cases = [
            ("sample", "--calls", "0"),
            ("sample", "--calls", "many"),
            ("sample", "--in-flight", "0"),
            ("sample", "--prompt-tokens", "-1"),
            ("sample", "--max-tokens", "0"),
            ("sample", "--timeout", "0"),
            ("train", "--rank", "0"),
            ("train", "--data", "0"),
        ]
        for work, option, value in cases:
            arguments = [item for pair in zip(self.ANY[::2], self.ANY[1::2]) if pair[0] != option for item in pair]
            with self.subTest(option=option, value=value):
                self.assert_usage_error(bench(work, *arguments, option, value), option)

    def test_options_of_the_other_kind_are_refused(self):
        self.assert_usage_error(bench("sample", *self.ANY, "--rank", "8"), "--rank")
        self.assert_usage_error(bench("train", *self.ANY, "--max-tokens", "8"), "--max-tokens")

    def test_an_address_that_is_none_is_named(self):
        run = bench("sample", "--base-url", "not a url", "--calls", "1", "--in-flight", "1")

        self.assert_usage_error(run, "not a url")

    def test_a_missing_certificate_file_is_named(self):
        self.assert_usage_error(bench("sample", *self.ANY, "--ca-file", "/no/such/file"), "/no/such/file")


if __name__ == "__main__":
    unittest.main()
