"""The tinker command as a process: `tinker tokenize`, with files and with a hub on this machine (BEHAVIOUR 16).

What a tokenizer does with text is the business of tests/unit/tokenizer; here it is the command line, and how files come
from a hub into the cache. CTest passes the command's path in TINKER_COMMAND.
"""

import collections
import hashlib
import json
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

from hub_server import HubServer, git_name  # noqa: E402

COMMAND = os.environ.get("TINKER_COMMAND", str(ROOT / "build/dev/bin/tinker"))
TIMEOUT_S = 60  # of one run; a deadlock ends here
OK, REFUSED, USAGE = 0, 1, 2

GOLDEN = ROOT / "tests/golden/tokenizer"
QWEN = (GOLDEN / "qwen.json").read_bytes()
LLAMA = (GOLDEN / "llama3.json").read_bytes()

Outcome = collections.namedtuple("Outcome", "status stdout stderr")


def start(*arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS"))}
    environment |= variables
    return subprocess.Popen(
        [COMMAND, "tokenize", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


def finish(process, stdin=b""):
    stdout, stderr = process.communicate(stdin, timeout=TIMEOUT_S)
    return Outcome(process.returncode, stdout.decode(), stderr.decode())


def tokenize(*arguments, stdin=b"", **variables):
    return finish(start(*arguments, **variables), stdin)


class CommandTest(unittest.TestCase):
    def assert_output(self, outcome, expected):
        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        self.assertEqual(outcome.stdout, expected)

    def assert_refused(self, outcome, *parts, status=REFUSED):
        self.assertEqual((outcome.status, outcome.stdout), (status, ""), outcome.stderr)
        for part in parts:
            self.assertIn(part, outcome.stderr)


class Files(CommandTest):
    QWEN = ("--tokenizer", str(GOLDEN / "qwen.json"))

    def setUp(self):
        self.ids = tokenize(*self.QWEN, "--ids", "Hello, world").stdout.strip()
        self.assertGreater(len(self.ids.split()), 1)

    def test_text_comes_from_arguments_or_standard_input(self):
        self.assert_output(tokenize(*self.QWEN, "--ids", "Hello,", "world"), self.ids + "\n")
        self.assert_output(tokenize(*self.QWEN, "--ids", stdin=b"Hello, world"), self.ids + "\n")
        self.assert_output(tokenize(*self.QWEN, "--ids", stdin=b""), "\n")

    def test_prints_a_line_for_each_token(self):
        lines = tokenize(*self.QWEN, "Hello, world\n").stdout.splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines][: len(self.ids.split())], self.ids.split())
        self.assertEqual("".join(line.split("\t")[1] for line in lines), "Hello, world\\n")

    def test_prints_json_with_offsets_in_bytes(self):
        text = "Größe 1"
        outcome = tokenize(*self.QWEN, "--json", text)
        answer = json.loads(outcome.stdout)
        self.assertEqual(list(answer), ["ids", "tokens", "offsets"])
        self.assertEqual(answer["offsets"][0][0], 0)
        self.assertEqual(answer["offsets"][-1][1], len(text.encode()))
        self.assertEqual(len(answer["ids"]), len(answer["tokens"]))

    def test_decodes(self):
        self.assert_output(tokenize(*self.QWEN, "--decode", *self.ids.split()), "Hello, world")
        as_list = "[" + ", ".join(self.ids.split()) + "]\n"
        self.assert_output(tokenize(*self.QWEN, "--decode", stdin=as_list.encode()), "Hello, world")
        self.assertEqual(json.loads(tokenize(*self.QWEN, "--decode", "--json", self.ids).stdout), {"text": "Hello, world"})

    def test_control_tokens_are_text_unless_asked_for(self):
        plain = tokenize(*self.QWEN, "--ids", "<|end|>").stdout.split()
        parsed = tokenize(*self.QWEN, "--ids", "--parse-special", "<|end|>").stdout.split()
        self.assertGreater(len(plain), 1)
        self.assertEqual(len(parsed), 1)
        self.assert_output(tokenize(*self.QWEN, "--decode", "--no-special", *parsed), "")

    def test_shows_colours_on_a_terminal_alone(self):
        def on_terminal(**variables):
            ours, theirs = pty.openpty()
            subprocess.run([COMMAND, "tokenize", *self.QWEN, "Hello"], stdout=theirs, env={**os.environ, **variables}, timeout=TIMEOUT_S)
            os.close(theirs)
            return os.read(ours, 65536).decode()

        self.assertIn("\x1b[", on_terminal())
        self.assertIn("token", on_terminal())
        self.assertNotIn("\x1b[", on_terminal(NO_COLOR="1"))

    def test_refuses_what_it_cannot_use(self):
        self.assert_refused(tokenize("text"), "--model or --tokenizer", status=USAGE)
        self.assert_refused(tokenize("--model", "a/b", *self.QWEN), "--model", status=USAGE)
        self.assert_refused(tokenize("--tokenizer", "/no/such", "x"), "/no/such")
        self.assert_refused(tokenize(*self.QWEN, "--decode", "1 two"), "two")
        self.assert_refused(tokenize(*self.QWEN, "--decode", "99999999"), "99999999")


class Models(CommandTest):
    NAME = "org/model"

    def setUp(self):
        self.hub = self.enterContext(HubServer())
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.cache = self.home / "hub"
        self.repository = self.hub.add(self.NAME)
        self.expected = tokenize("--tokenizer", str(GOLDEN / "qwen.json"), "--ids", "Hello").stdout

    def start(self, *arguments, model=NAME, **variables):
        variables = {"HF_ENDPOINT": self.hub.url(), "HF_HOME": str(self.home), **variables}
        return start("--model", model, "--ids", *arguments, "Hello", **variables)

    def tokenize(self, *arguments, **variables):
        return finish(self.start(*arguments, **variables))

    def folder(self, *parts):
        return self.cache.joinpath("models--org--model", *parts)

    def serve(self, content=QWEN, large=False, **files):
        if large:
            self.repository.large = {"tokenizer.json"}
        return self.repository.commit({"tokenizer.json": content, **files})

    def blob(self, content=QWEN):
        return self.folder("blobs", git_name(content))

    def test_brings_a_file_and_keeps_it_as_the_python_tools_do(self):
        commit = self.serve()
        self.assert_output(self.tokenize(), self.expected)
        self.assertEqual(self.folder("refs", "main").read_text(), commit)
        link = self.folder("snapshots", commit, "tokenizer.json")
        self.assertEqual(os.readlink(link), f"../../blobs/{git_name(QWEN)}")
        self.assertEqual(link.read_bytes(), QWEN)
        self.assertEqual([p.name for p in self.folder("blobs").iterdir()], [git_name(QWEN)])

    def test_brings_it_once(self):
        self.serve()
        self.assert_output(self.tokenize(), self.expected)
        self.assert_output(self.tokenize(), self.expected)
        self.assertEqual(len(self.hub.bodies_sent("tokenizer.json")), 1)

    def test_follows_to_storage_without_the_token(self):
        self.serve(large=True)
        self.repository.token = "hf_secret"
        self.assert_output(self.tokenize(HF_TOKEN="hf_secret"), self.expected)
        seen = {where: headers.get("Authorization") for where, _, _, headers in self.hub.requests}
        self.assertEqual(seen, {"hub": "Bearer hf_secret", "storage": None})
        self.assertTrue(self.folder("blobs", hashlib.sha256(QWEN).hexdigest()).exists())

    def test_speaks_tls_to_whom_it_can_trust(self):
        if not shutil.which("openssl"):
            self.skipTest("no openssl to make a certificate with")
        certificate = self.home / "certificate.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hub"]
            + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate, "-out", self.home / "authority.pem"],
            check=True,
            capture_output=True,
        )
        with certificate.open("a") as file:
            file.write((self.home / "authority.pem").read_text())
        hub = self.enterContext(HubServer(certificate))
        hub.repositories = {self.NAME: self.repository}
        self.serve(large=True)
        trusted = {"HF_ENDPOINT": hub.url(), "SSL_CERT_FILE": str(self.home / "authority.pem")}
        self.assert_output(self.tokenize(**trusted), self.expected)
        self.assert_refused(self.tokenize(HF_ENDPOINT=hub.url(), HF_HOME=str(self.home / "other")), "certificate")

    def test_reads_the_token_from_its_file(self):
        self.serve()
        self.repository.token = "hf_secret"
        (self.home / "token").write_text("hf_secret\n")
        self.assert_output(self.tokenize(), self.expected)
        self.assert_refused(self.tokenize(HF_HUB_DISABLE_IMPLICIT_TOKEN="1"), "HF_TOKEN")

    def test_goes_on_where_an_earlier_download_broke_off(self):
        self.serve()
        self.blob().parent.mkdir(parents=True)
        partial = self.blob().with_name(self.blob().name + ".incomplete")
        partial.write_bytes(QWEN[:1000])
        self.assert_output(self.tokenize(), self.expected)
        self.assertEqual([r[3].get("Range") for r in self.hub.bodies_sent("tokenizer.json")], ["bytes=1000-"])
        self.assertEqual(self.blob().read_bytes(), QWEN)
        self.assertFalse(partial.exists())

    def test_goes_on_after_the_connection_broke(self):
        for large in (False, True):
            with self.subTest(large=large):
                self.serve(content=QWEN + b" " * large, large=large)
                self.hub.cut = [5000]
                self.hub.requests.clear()
                self.assert_output(self.tokenize(), self.expected)
                self.assertIn("bytes=5000-", [r[3].get("Range") for r in self.hub.requests])

    def test_begins_again_where_the_hub_knows_no_ranges(self):
        self.serve()
        self.hub.ignores_range = True
        self.hub.cut = [5000]
        self.assert_output(self.tokenize(), self.expected)
        self.assertEqual(self.blob().read_bytes(), QWEN)

    def test_asks_again_after_a_failure_of_the_hub(self):
        self.serve()
        self.hub.failing = 1
        self.assert_output(self.tokenize(), self.expected)

    def test_brings_a_damaged_file_again(self):
        self.serve()
        self.hub.damaged = 1
        self.assert_output(self.tokenize(TINKER_LOG="off"), self.expected)
        self.assertEqual(self.blob().read_bytes(), QWEN)

    def test_what_an_earlier_download_left_may_be_damaged(self):
        self.serve()
        self.blob().parent.mkdir(parents=True)
        self.blob().with_name(self.blob().name + ".incomplete").write_bytes(b"x" * 1000)
        self.assert_output(self.tokenize(TINKER_LOG="off"), self.expected)
        self.assertEqual(self.blob().read_bytes(), QWEN)

    def test_never_uses_a_file_that_stays_damaged(self):
        for large in (False, True):
            with self.subTest(large=large):
                self.serve(content=QWEN + b" " * large, large=large)
                self.hub.damaged = 100
                self.assert_refused(self.tokenize(TINKER_LOG="off"), "damaged", "checksum")
                self.assertEqual(list(self.folder("snapshots").glob("*/*")) if self.folder("snapshots").exists() else [], [])

    def test_says_what_is_not_there(self):
        self.serve()
        self.assert_refused(self.tokenize(model="org/other"), "org/other", "HF_TOKEN", "401")
        self.assert_refused(self.tokenize(model="org/other", HF_TOKEN="hf_x"), "org/other", "404")
        self.assert_refused(self.tokenize("--revision", "v9"), "no revision v9", "404")
        self.repository.commit({"README.md": b""})
        self.assert_refused(self.tokenize(), "neither tokenizer.json nor tiktoken.model")

    def test_says_what_is_gated(self):
        self.serve()
        self.repository.gated, self.repository.token = True, "hf_good"
        self.assert_refused(self.tokenize(), "is gated", f"{self.hub.url()}/org/model", "set HF_TOKEN", "401")
        self.assert_refused(self.tokenize(HF_TOKEN="hf_bad"), "is gated", "403", "restricted")
        self.assert_output(self.tokenize(HF_TOKEN="hf_good"), self.expected)

    def test_works_offline_with_what_it_has(self):
        self.serve()
        self.assert_refused(self.tokenize(HF_HUB_OFFLINE="1"), "not in the cache", str(self.cache), "HF_HUB_OFFLINE")
        self.assert_output(self.tokenize(), self.expected)
        self.hub.requests.clear()
        self.assert_output(self.tokenize(HF_HUB_OFFLINE="1"), self.expected)
        self.assert_output(self.tokenize("--revision", self.repository.refs["main"]), self.expected)
        self.assertEqual(self.hub.requests, [])

    def test_uses_the_cache_while_the_hub_cannot_be_reached(self):
        self.serve()
        self.assert_output(self.tokenize(), self.expected)
        self.hub.stop()
        outcome = self.tokenize(TINKER_LOG="warn")
        self.assertEqual((outcome.status, outcome.stdout), (OK, self.expected))
        self.assertIn("may be out of date", outcome.stderr)
        self.assert_refused(self.tokenize(model="org/other"), "127.0.0.1")

    def test_follows_a_branch_that_moves(self):
        first = self.serve()
        self.assert_output(self.tokenize(), self.expected)
        second = self.serve(content=LLAMA)
        self.assertNotEqual(self.tokenize().stdout, self.expected)
        self.assertEqual(self.folder("refs", "main").read_text(), second)
        self.assert_output(self.tokenize("--revision", first), self.expected)

    def test_two_processes_fill_one_cache(self):
        self.serve(large=True)
        self.hub.pause_s = 0.05
        processes = [self.start() for _ in range(4)]
        for process in processes:
            self.assert_output(finish(process), self.expected)
        self.assertEqual(len([r for r in self.hub.requests if r[0] == "storage"]), 1)

    def test_takes_nothing_that_would_leave_the_cache(self):
        self.serve()
        for headers in ({"ETag": '"../../../escaped"'}, {"ETag": '""'}, {"X-Repo-Commit": "../../escaped"}, {"X-Repo-Commit": ""}):
            with self.subTest(headers=headers):
                self.hub.headers = headers
                self.assert_refused(self.tokenize(), "answers as no hub does")
        self.assertEqual([p for p in self.home.rglob("*escaped*")], [])
        for model in ("../model", "org/../x", "/etc/passwd", "org/model\nx", "a--b", "x" * 200):
            self.assert_refused(self.tokenize(model=model), "repository: expected a name like")
        self.assert_refused(self.tokenize("--revision", "../x"), "revision: expected a plain name")

    def test_knows_how_servers_name_models(self):  # R16.2, R16.3, R16.4
        self.serve()
        for model in ("org/model:peft:262144", "org/model/variant"):
            self.assert_output(self.tokenize(model=model), self.expected)
        self.hub.add("thinkingmachineslabinc/meta-llama-3-instruct-tokenizer").commit({"tokenizer.json": LLAMA})
        self.assertEqual(self.tokenize(model="meta-llama/Llama-3.1-8B").status, OK)
        self.assert_refused(self.tokenize(model="TML/secret"), "TML/secret", "is on no hub")

    def test_brings_what_kimi_has_instead(self):  # R16.5
        kimi = {
            "tiktoken.model": (GOLDEN / "kimi.tiktoken").read_bytes(),
            "tokenizer_config.json": json.dumps(
                {
                    "tokenizer_class": "TikTokenTokenizer",
                    "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]},
                    "added_tokens_decoder": {},
                }
            ).encode(),
        }
        revision = "612681931a8c906ddb349f8ad0f582cb552189cd"
        self.hub.add("moonshotai/Kimi-K2-Thinking").commits[revision] = kimi
        outcome = self.tokenize(model="moonshotai/Kimi-K2-Thinking:x")
        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        self.hub.requests.clear()
        self.assert_output(self.tokenize(model="moonshotai/Kimi-K2-Thinking"), outcome.stdout)
        self.assertEqual(self.hub.requests, [], "all of a commit is in the cache, also what it does not have")

    def test_refuses_an_endpoint_that_is_none(self):
        self.assert_refused(self.tokenize(HF_ENDPOINT="hub"), "HF_ENDPOINT", "hub")


if __name__ == "__main__":
    unittest.main()
