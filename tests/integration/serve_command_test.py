"""`tinker serve` as an operator meets it: TLS and its signals, what it refuses and warns of, exit codes, and options that no test of
LocalServer sees. CTest passes the command's path in TINKER_COMMAND.
"""

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("TINKER_COMMAND", str(ROOT / "build/dev/bin/tinker"))
MODEL = ("--model", "tiny=random:1x32,vocab=300")
KEY = "tml-ada-0123456789abcdef"
TIMEOUT_S = 60  # of one run; a deadlock ends here
OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


class Server:
    """A server that came up, its events so far, and what it says from then on."""

    def __init__(self, *arguments):
        command = [COMMAND, "serve", *MODEL, "--json", "--port", "0", "--threads", "1", *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.first = None
        self.ready = self.event("ready")
        self.address = urllib.parse.urlsplit(self.ready["url"]).netloc

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def event(self, kind, text=""):
        """The next event of that kind that has `text`."""
        for line in self.process.stdout:
            event = json.loads(line)
            self.first = self.first or event
            if event["event"] == kind and text in event.get("message", ""):
                return event
        raise AssertionError(f"no {kind} with {text!r}; the server said: {self.process.stderr.read()}")

    def stop(self, with_signal=signal.SIGTERM):
        """The exit code and all that it said since the last event."""
        self.process.send_signal(with_signal)
        said, _ = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, said

    def ask(self, method, path, body=None, connection=None, **headers):
        """(status, headers, JSON) of a request."""
        connection = connection or http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        content = None if body is None else json.dumps(body)
        connection.request(method, "/api/v1/" + path, content, {"X-API-Key": KEY, "Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, answer.headers, json.loads(text) if text else None

    def post(self, path, /, **body):
        status, _, answer = self.ask("POST", path, body)
        assert status == 200, answer
        return answer

    def outcome(self, path, /, **body):
        """What an operation ended with."""
        request = self.post(path, **body)["request_id"]
        status = 408
        while status == 408:
            status, _, answer = self.ask("POST", "retrieve_future", {"request_id": request})
        return answer

    def new_run(self, base_model="tiny"):
        """What its creation ended with."""
        session = self.post("create_session", tags=[], sdk_version="0.36.0")["session_id"]
        return self.outcome("create_model", session_id=session, model_seq_id=1, base_model=base_model, lora_config={"rank": 2})

    def sample(self, **source):
        prompt = {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}
        return self.outcome("asample", prompt=prompt, num_samples=1, sampling_params={"max_tokens": 2}, **source)


class Serve(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, *arguments):
        return self.enterContext(Server(*arguments))

    def refused(self, *arguments):
        """What a server that does not start says."""
        command = [COMMAND, "serve", *MODEL, "--port", "0", *map(str, arguments)]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(outcome.returncode, REFUSED, outcome.stderr)
        self.assertNotIn("serves", outcome.stdout)
        return outcome.stderr

    def keys(self):
        file = self.folder / "keys"
        file.touch(mode=0o600)
        file.write_text(f"ada {KEY}\n")
        return ("--api-key-file", file)


class Ends(Serve):
    def test_with_0_after_sigterm_and_130_after_ctrl_c(self):
        for with_signal, expected in ((signal.SIGTERM, OK), (signal.SIGINT, INTERRUPTED)):
            with self.subTest(signal=with_signal):
                code, said = self.start().stop(with_signal)
                self.assertEqual(code, expected)
                self.assertIn("stopping: what runs has 30 s to finish", said)

    def test_as_usual_where_nobody_reads_what_it_says(self):
        for with_signal, expected in ((signal.SIGTERM, OK), (signal.SIGINT, INTERRUPTED)):
            with self.subTest(signal=with_signal):
                server = self.start()
                server.process.stdout.close()
                self.assertEqual(server.sample(base_model="tiny")["type"], "sample")
                server.process.send_signal(with_signal)
                self.assertEqual(server.process.wait(TIMEOUT_S), expected)
                server.process.stdout = None

    def test_at_once_after_a_second_ctrl_c(self):
        server = self.start("--limit", "drain_time=10min")
        prompt = {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}
        params = {"max_tokens": 30_000, "stop": []}
        server.post("asample", base_model="tiny", prompt=prompt, num_samples=500, sampling_params=params)
        server.process.send_signal(signal.SIGINT)
        server.event("log", "stopping")
        time.sleep(0.1)  # until it listens to the second one
        begin = time.monotonic()
        code, _ = server.stop(signal.SIGINT)
        self.assertEqual(code, -signal.SIGINT)  # 130, says a shell
        self.assertLess(time.monotonic() - begin, 10)

    def test_with_2_after_a_wrong_command_line(self):
        for wrong in (["--port", "many"], ["--memory", "much"], ["--snapshot-steps", "0"], ["--dtype", "f8"], ["--speed", "1"]):
            with self.subTest(wrong=wrong):
                outcome = subprocess.run([COMMAND, "serve", *MODEL, *wrong], capture_output=True, text=True, timeout=TIMEOUT_S)
                self.assertEqual(outcome.returncode, USAGE)
                self.assertIn(wrong[0], outcome.stderr)


class Data(Serve):
    def test_is_readable_by_nobody_else_also_in_a_folder_that_others_may_enter(self):
        data = self.folder / "data"
        data.mkdir()
        data.chmod(0o755)
        self.addCleanup(os.umask, os.umask(0o022))
        server = self.start("--data-dir", data, "--durable")
        run = server.new_run()["model_id"]
        server.outcome("save_weights", model_id=run, seq_id=1, path="mine")
        self.assertEqual({path.name for path in data.iterdir()} & {"catalogue.db", "checkpoints", "journal"}, {"catalogue.db", "checkpoints", "journal"})
        self.assertEqual([path.name for path in data.iterdir() if path.stat().st_mode & 0o077], [])
        self.assertEqual({path.stat().st_mode & 0o777 for path in data.glob("journal/**/log")}, {0o600})

    def test_that_was_temporary_goes_with_the_next_server_after_a_kill(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        self.addCleanup(os.environ.pop, "TMPDIR")
        killed = self.start()
        killed.process.kill()
        killed.process.wait(TIMEOUT_S)
        left = set(temporary.iterdir())
        self.assertTrue(left)
        running = self.start()
        self.assertFalse(left & set(temporary.iterdir()))
        self.assertEqual(running.stop()[0], OK)
        self.assertEqual(list(temporary.iterdir()), [])


class Refusals(Serve):
    def test_a_second_server_on_one_folder_hears_whose_it_is(self):
        first = self.start("--data-dir", self.folder / "data")
        text = self.refused("--data-dir", self.folder / "data")
        self.assertIn(f"data folder {self.folder}/data is used by the process {first.ready['pid']}", text)
        self.assertEqual(first.ready["pid"], first.process.pid)
        self.assertEqual(first.ask("GET", "healthz")[0], 200)
        self.assertEqual(first.stop()[0], OK)
        self.assertEqual(self.start("--data-dir", self.folder / "data").stop()[0], OK)

    def test_durable_runs_need_a_data_folder(self):
        self.assertIn("durable: runs cannot survive the server without a folder that does; give data_dir (--data-dir)", self.refused("--durable"))

    def test_a_session_timeout_is_a_year_at_most(self):
        self.assertIn("session_timeout: expected 1 s to 31536000 s (365 days), found 10000000000 s", self.refused("--session-timeout", "10000000000"))

    def test_a_public_url_needs_keys(self):
        self.assertIn("public_url 'https://tinker.example' can be reached", self.refused("--public-url", "https://tinker.example"))

    def test_a_model_that_does_not_fit_is_refused_with_both_numbers(self):
        large = ("--model", "large=random:4x256,vocab=4096")
        answer = self.start(*large, "--memory", "2MB").new_run("large")
        self.assertRegex(answer["error"], r"^large needs \d+ MiB, and 2 MiB are left of the 2 MiB for models$")
        self.assertEqual(answer["category"], "user")
        self.assertIn("model_id", self.start(*large, "--memory", "1GB").new_run("large"))


class Options(Serve):
    def test_an_adapter_is_there_to_sample_from(self):
        data = self.folder / "data"
        trainer = self.start("--data-dir", data)
        run = trainer.new_run()["model_id"]
        trainer.outcome("save_weights_for_sampler", model_id=run, path="kept", seq_id=1)
        self.assertEqual(trainer.stop()[0], OK)
        (folder,) = (data / "checkpoints").iterdir()
        server = self.start("--adapter", f"mine={folder}")
        self.assertEqual(len(server.sample(model_path="tinker://imported/sampler_weights/mine")["sequences"]), 1)
        self.assertIn("other", server.ask("POST", "weights_info", {"tinker_path": "tinker://imported/sampler_weights/other"})[2]["detail"])

    def test_an_adapter_that_is_not_there_is_refused(self):
        self.assertIn("nowhere/adapter_config.json", self.refused("--adapter", "mine=nowhere"))
        self.assertIn("--adapter: expected NAME=VALUE, found 'mine'", self.refused("--adapter", "mine"))

    def test_runs_of_a_data_folder_have_journals_unless_told_otherwise(self):
        for options, is_durable in (((), True), (("--durable",), True), (("--no-durable",), False)):
            with self.subTest(options=options):
                data = self.folder / "-".join(("data", *options))
                self.assertIn("model_id", self.start("--data-dir", data, *options).new_run())
                self.assertEqual(len(list(data.glob("journal/*/train-1/log"))), int(is_durable))

    def test_ready_is_the_first_event_also_where_runs_go_on(self):
        first = self.start("--data-dir", self.folder / "data")
        run = first.new_run()["model_id"]
        first.process.kill()
        first.process.wait()
        second = self.start("--data-dir", self.folder / "data")
        self.assertEqual(second.first, second.ready)
        self.assertIn(run, second.event("log", "goes on")["message"])

    def test_a_unix_socket_answers_instead_of_a_port(self):
        path = self.folder / "socket"
        server = self.start("--unix-socket", path)
        self.assertEqual(server.ready["url"], f"http+unix://{urllib.parse.quote(str(path), safe='')}")
        status, _, models = server.ask("GET", "get_server_capabilities", connection=UnixConnection(path))
        self.assertEqual((status, models["supported_models"][0]["model_name"]), (200, "tiny"))
        self.assertEqual(server.stop()[0], OK)

    def test_a_public_url_begins_signed_links(self):
        server = self.start("--public-url", "https://tinker.example/team", *self.keys())
        run = server.new_run()["model_id"]
        server.outcome("save_weights", model_id=run, path="kept", seq_id=1)
        status, headers, _ = server.ask("GET", f"training_runs/{run}/checkpoints/weights/kept/archive", Host="tinker.example")
        self.assertEqual(status, 302)
        self.assertTrue(headers["Location"].startswith(f"https://tinker.example/team/api/v1/download/{run}/weights/kept/"))


@unittest.skipUnless(shutil.which("openssl"), "no openssl to make a certificate with")
class Tls(Serve):
    WARNING = "keys and data travel unencrypted"

    def setUp(self):
        super().setUp()
        self.certificate, self.key = self.folder / "cert.pem", self.folder / "key.pem"
        self.options = ("--tls-cert", self.certificate, "--tls-key", self.key)
        self.make_certificate()

    def make_certificate(self):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
            + ["-subj", "/CN=tinker", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.key, "-out", self.certificate],
            check=True,
            capture_output=True,
        )
        return self.certificate.read_text()

    def status(self, server, trusted):
        """Of a request by a client that trusts this certificate alone."""
        context = ssl.create_default_context(cadata=trusted)
        return server.ask("GET", "healthz", connection=http.client.HTTPSConnection(server.address, timeout=TIMEOUT_S, context=context))[0]

    def test_a_server_with_a_certificate_speaks_tls_alone(self):
        server = self.start(*self.options)
        self.assertTrue(server.ready["url"].startswith("https://127.0.0.1:"))
        self.assertEqual(self.status(server, self.certificate.read_text()), 200)
        with self.assertRaises((http.client.HTTPException, OSError)):
            server.ask("GET", "healthz")

    def test_sighup_reads_the_certificate_again(self):
        first = self.certificate.read_text()
        server = self.start(*self.options)
        second = self.make_certificate()
        self.assertEqual(self.status(server, first), 200)
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.event("log", "certificates read again")["level"], "info")
        self.assertEqual(self.status(server, second), 200)
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.status(server, first)

    def test_sighup_with_a_broken_file_leaves_the_old_certificate(self):
        server = self.start(*self.options)
        first = self.certificate.read_text()
        self.certificate.write_text("no certificate")
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.event("log", str(self.certificate))["level"], "error")
        self.assertEqual(self.status(server, first), 200)
        self.assertEqual(server.stop()[0], OK)

    def test_sighup_does_not_end_a_server_without_tls(self):
        server = self.start()
        server.process.send_signal(signal.SIGHUP)
        server.event("log", "certificates read again")
        self.assertEqual(server.ask("GET", "healthz")[0], 200)

    def test_half_of_an_identity_or_a_wrong_one_is_refused(self):
        for half in (self.options[:2], self.options[2:]):
            self.assertIn("expected a certificate and a key, found only one of them", self.refused(*half))
        old = self.key.read_text()
        self.make_certificate()
        self.key.write_text(old)
        self.assertIn(str(self.key), self.refused(*self.options))

    def test_warns_where_keys_travel_in_the_clear(self):
        everywhere = ("--host", "0.0.0.0", *self.keys())
        self.assertIn(self.WARNING, self.start(*everywhere).event("log", self.WARNING)["message"])
        proxy = self.start("--public-url", "http://tinker.example", *self.keys())
        self.assertEqual(proxy.event("log", self.WARNING)["level"], "warning")
        for quiet in ((*everywhere, *self.options), (), ("--public-url", "https://tinker.example", *self.keys())):
            with self.subTest(quiet=quiet):
                self.assertNotIn(self.WARNING, self.start(*quiet).stop()[1])


if __name__ == "__main__":
    unittest.main()
