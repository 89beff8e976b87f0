"""Every command of the official command line against the server (CLI.md); commands are found in the package."""

import csv
import datetime
import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import click
import tinker
from batches import *
from case import *
from tinker.cli.__main__ import main_cli

KEYS = {"ada": "tml-the-test-key-of-ada"}
COMMAND_SECONDS = 60
OK, FAILED = 0, 1
# The official program, without the end of the interpreter: now and then the threads of its native transport abort there,
# after all has been said.
PROGRAM = """
import os, sys
from tinker.cli.__main__ import main
try:
    main()
    status = 0
except SystemExit as end:
    status = end.code or 0
sys.stdout.flush(), sys.stderr.flush()
os._exit(status)
"""

used = set()


def all_commands(group=main_cli, path=()):
    """The names of all commands, as tuples of words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = set(all_commands())


class Commands(ServedCase):
    KEYS = KEYS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        home = tempfile.TemporaryDirectory(prefix="tinker-home-")
        cls.addClassCleanup(home.cleanup)
        cls.home = pathlib.Path(home.name)
        cls.service = tinker.ServiceClient(user_metadata={"team": "ml"})
        cls.session_id = cls.service.holder.get_session_id()
        cls.training = cls.service.create_lora_training_client(BASE_MODEL, rank=4, user_metadata={"epoch": "3"})
        train(cls.training, 1)
        cls.run_id = cls.training.model_id

    def setUp(self):
        self.path = self.saved("first")

    def saved(self, name, **options):
        name = f"{self._testMethodName.removeprefix('test_')}-{name}"
        return self.training.save_state(name, overwrite=True, **options).result().path

    def tinker(self, *words, expect=OK, stdin="", **variables):
        """stdout of a command that must end with `expect`; of a failure: stderr."""
        names = [word for word in words if not word.startswith("-") and word != "json"]
        used.add(next((tuple(names[:i]) for i in (2, 1) if tuple(names[:i]) in COMMANDS), ()))
        environment = {**os.environ, "HOME": str(self.home), "COLUMNS": "300", "HF_HUB_OFFLINE": "1", **variables}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            env={name: value for name, value in environment.items() if value is not None},
        )
        self.assertEqual(done.returncode, expect, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout if done.returncode == OK else done.stderr

    def json(self, *words, **options):
        return json.loads(self.tinker("-f", "json", *words, **options))

    def checkpoints(self):
        return {c["tinker_path"]: c for c in self.json("checkpoint", "list", "--run-id", self.run_id)["checkpoints"]}


class Runs(Commands):
    def test_list(self):
        runs = self.json("run", "list", "--limit", "0")["runs"]
        self.assertIn(self.run_id, [run["training_run_id"] for run in runs])
        table = self.tinker("run", "list", "-c", "id,model,lora,status,checkpoint")
        for cell in (self.run_id, BASE_MODEL, "Rank 4", "OK", self.path.rpartition("/")[2]):
            self.assertIn(cell, table)

    def test_list_goes_on_from_page_to_page(self):
        for _ in range(3):
            self.service.create_lora_training_client(BASE_MODEL, rank=1)
        self.assertEqual(len(self.json("run", "list", "--limit", "3")["runs"]), 3)
        self.assertIn("more not shown", self.tinker("run", "list", "--limit", "1"))

    def test_info(self):
        run = self.json("run", "info", self.run_id)
        self.assertEqual((run["base_model"], run["lora_rank"]), (BASE_MODEL, 4))
        self.assertEqual(run["last_checkpoint"]["tinker_path"], self.path)
        table = self.tinker("run", "info", self.run_id)
        for cell in (self.run_id, "Yes (Rank 4)", "epoch", self.path):
            self.assertIn(cell, table)
        self.assertIn("Resource not found", self.tinker("run", "info", "no-such-run", expect=FAILED))

    def test_version_needs_no_server(self):
        self.assertEqual(self.tinker("version", TINKER_BASE_URL="http://127.0.0.1:1"), f"tinker {tinker.__version__}\n")


class Checkpoints(Commands):
    def test_list(self):
        self.assertEqual(self.checkpoints()[self.path]["checkpoint_type"], "training")
        everything = self.json("checkpoint", "list", "--limit", "0")["checkpoints"]
        self.assertIn(self.path, [checkpoint["tinker_path"] for checkpoint in everything])
        self.assertIn(self.path, self.tinker("checkpoint", "list"))

    def test_info(self):
        info = self.json("checkpoint", "info", self.path)
        self.assertEqual((info["tinker_path"], info["is_lora"], info["lora_rank"]), (self.path, True, 4))
        self.assertIn(self.run_id, self.tinker("checkpoint", "info", self.path))
        self.assertIn("not found", self.tinker("checkpoint", "info", self.path + "x", expect=FAILED))

    def test_publish_and_unpublish(self):
        self.assertEqual(self.tinker("checkpoint", "publish", self.path), "")
        self.assertTrue(self.checkpoints()[self.path]["public"])
        self.assertEqual(self.tinker("checkpoint", "unpublish", self.path), "")
        self.assertFalse(self.checkpoints()[self.path]["public"])

    def test_set_ttl(self):
        self.assertEqual(self.tinker("checkpoint", "set-ttl", self.path, "--ttl", "7200"), "")
        expires = datetime.datetime.fromisoformat(self.checkpoints()[self.path]["expires_at"])
        left = (expires - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
        self.assertAlmostEqual(left, 7200, delta=60)
        self.assertEqual(self.tinker("checkpoint", "set-ttl", self.path, "--remove"), "")
        self.assertIsNone(self.checkpoints()[self.path]["expires_at"])
        message = self.tinker("checkpoint", "set-ttl", self.path, "--ttl", "5", expect=FAILED)
        self.assertIn("Invalid request", message)
        self.assertIn("5", message)

    def test_delete(self):
        others = [self.saved(f"other-{i}") for i in range(3)]
        self.assertEqual(self.json("checkpoint", "delete", self.path, "--yes"), {"deleted_count": 1, "failed": []})
        self.assertIn("Deleted 2 checkpoint", self.tinker("checkpoint", "delete", *others[:2], stdin="y\n"))
        self.tinker("checkpoint", "delete", others[2], stdin="n\n")
        left = self.checkpoints().keys()
        self.assertTrue(others[2] in left and not left & {self.path, *others[:2]})
        failed = self.json("checkpoint", "delete", self.path, "--yes")["failed"]
        self.assertEqual([f["tinker_path"] for f in failed], [self.path])

    def test_delete_of_a_run(self):
        training = self.service.create_lora_training_client(BASE_MODEL, rank=1)
        for name in ("a", "b"):
            training.save_state(name).result()
        sampler = training.save_weights_for_sampler("c").result().path
        words = ("checkpoint", "delete", "--run-id", training.model_id, "--type", "weights", "--after", "2020-01-01", "-y")
        self.assertEqual(self.json(*words)["deleted_count"], 2)
        left = self.json("checkpoint", "list", "--run-id", training.model_id)["checkpoints"]
        self.assertEqual([checkpoint["tinker_path"] for checkpoint in left], [sampler])

    def test_download(self):
        exported = self.training.save_weights_external("download").result().path
        for path in (self.path, exported):
            out = self.json("checkpoint", "download", path, "--output", str(self.home / "downloads"))
            folder = pathlib.Path(out["destination"])
            self.assertEqual(folder.name, path.removeprefix("tinker://").replace("/", "_"))
            files = {file.name: file.stat().st_size for file in folder.rglob("*") if file.is_file()}
            self.assertLessEqual({"adapter_config.json", "adapter_model.safetensors"}, files.keys())
            self.assertEqual(out["file_size_bytes"], sum(files.values()))
            self.assertEqual(json.loads((folder / "adapter_config.json").read_text())["r"], 4)
        message = self.tinker("checkpoint", "download", path, "--output", str(self.home / "downloads"), expect=FAILED)
        self.assertIn("exists", message)
        self.tinker("checkpoint", "download", path, "--output", str(self.home / "downloads"), "--force")
        temporary = [p for p in self.checkpoint_ids() if p.endswith("external_weights/download") and p != exported]
        self.assertEqual(temporary, [], "the export that a download makes is deleted")

    def checkpoint_ids(self):
        everything = self.json("checkpoint", "list", "--limit", "0")["checkpoints"]
        return [checkpoint["tinker_path"] for checkpoint in everything]

    def test_push_hf(self):
        with Hub() as hub:
            out = self.json(
                *("checkpoint", "push-hf", self.path, "--repo", "ada/adapter"),
                HF_ENDPOINT=hub.url,
                HF_TOKEN="hf_test",
                HF_HUB_OFFLINE=None,
                HF_HUB_DISABLE_XET="1",
            )
        self.assertEqual((out["checkpoint_path"], out["repo_id"]), (self.path, "ada/adapter"))
        self.assertLessEqual({"README.md", "adapter_config.json", "adapter_model.safetensors"}, hub.committed)


class Others(Commands):
    def test_models(self):
        models = {model["model_name"]: model for model in self.json("model", "list")["models"]}
        self.assertGreater(models[BASE_MODEL]["max_context_length"], 0)
        self.assertEqual((models[BASE_MODEL]["trainable"], models[BASE_MODEL]["sampleable"]), (True, True))
        self.assertIn(BASE_MODEL, self.tinker("model", "list", "TINY"))
        self.tinker("model", "list", "nothing-of-this-name", expect=FAILED)

    def test_usage(self):
        now = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
        window = [moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (now, now + datetime.timedelta(hours=2))]
        out = self.json("billing", "usage", *window)
        training = [event for event in out["data"] if event["event_info"]["type"] == "training"]
        self.assertGreater(sum(event["event_info"]["token_count"] for event in training), 0)
        self.assertEqual(out["sessions"][self.session_id]["user_metadata"], {"team": "ml"})
        rows = list(csv.DictReader(io.StringIO(self.tinker("billing", "usage", *window, "--csv", "-"))))
        self.assertIn("training", [row["type"] for row in rows])
        rows = list(csv.DictReader(io.StringIO(self.tinker("billing", "usage", *window, "--sessions-csv", "-"))))
        self.assertIn(self.session_id, [row["session_id"] for row in rows])
        self.assertIn("hourly usage row", self.tinker("billing", "usage", *window))

    def test_usage_of_too_long_a_time(self):
        window = "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z"
        self.assertIn("Invalid request", self.tinker("billing", "usage", *window, expect=FAILED))

    def test_storage(self):
        items = self.json("billing", "checkpoint-storage")["data"]
        self.assertGreater(sum(item["size_bytes"] for item in items), 1000)
        rows = list(csv.DictReader(io.StringIO(self.tinker("billing", "checkpoint-storage", "--csv", "-"))))
        self.assertEqual(len(rows), len(items))

    def test_trace(self):
        """There is none, and the command says so."""
        target = self.home / "trace"
        message = self.tinker("session", "export-trace", self.session_id, "-o", str(target), expect=FAILED)
        self.assertIn(f"{self.session_id}: this server records no traces", message)
        self.assertFalse(target.exists())
        message = self.tinker("session", "export-trace", "no-such-session", expect=FAILED)
        self.assertIn("Resource not found", message)

    def test_a_wrong_key(self):
        message = self.tinker("run", "list", expect=FAILED, TINKER_API_KEY="tml-of-nobody")
        self.assertIn("401", message)
        self.assertNotIn("tml-of-nobody", message)


class Login(Commands):
    def test_login_status_whoami_logout(self):
        key = KEYS["ada"]
        self.assertIn("Authentication failed", self.tinker("auth", "status", expect=FAILED, TINKER_API_KEY="tml-nobody"))
        self.assertIn("No Tinker credentials", self.tinker("auth", "status", expect=FAILED, TINKER_API_KEY=None))
        message = self.tinker("auth", "login", stdin="tml-nobody\n", expect=FAILED, TINKER_API_KEY=None)
        self.assertIn("HTTP 401", message)
        self.assertIn("Logged in as", self.tinker("auth", "login", stdin=key + "\n", TINKER_API_KEY=None))
        self.assertIn("Tinker accessible: yes", self.tinker("auth", "status", TINKER_API_KEY=None))
        who = self.json("auth", "whoami", TINKER_API_KEY=None)
        self.assertEqual(who["user_urn"], "tml:organization_user:ada")
        self.assertIn(self.run_id, self.tinker("run", "list", "--limit", "0", TINKER_API_KEY=None))
        self.assertIn("Removed credential", self.tinker("auth", "logout", TINKER_API_KEY=None))
        self.assertIn("No default credential", self.tinker("auth", "logout", expect=FAILED, TINKER_API_KEY=None))
        self.assertIn(self.run_id, self.tinker("run", "list", "--limit", "0"))  # a pasted key stays valid


class RevokedKey(Commands):
    KEYS = {"eve": "tml-the-test-key-of-eve"}  # a server of its own

    def test_logout_of_a_generated_key_revokes_it(self):
        key = self.KEYS["eve"]
        self.tinker("auth", "login", stdin=key + "\n", TINKER_API_KEY=None)
        file = self.home / ".tinker/credentials.json"
        file.write_text(file.read_text().replace('"manual"', '"generated"'))
        self.assertIn("deleted its API key", self.tinker("auth", "logout", TINKER_API_KEY=None))
        self.assertIn("401", self.tinker("run", "list", expect=FAILED))


class Hub:
    """As much of a model hub as an upload of small files needs; keeps the names of what was committed."""

    def __enter__(self):
        hub = self
        self.committed = set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def reply(self, body, status=200):
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def do_GET(self):
                if self.path.startswith("/api/whoami"):
                    return self.reply({"name": "ada", "type": "user", "auth": {"type": "access_token"}})
                if self.path.startswith("/api/models/"):
                    sha = "0" * 40
                    return self.reply({"id": "ada/adapter", "sha": sha, "private": True, "siblings": [], "tags": []})
                return self.reply({"error": "not found"}, 404)

            do_HEAD = do_GET

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or self.chunked()
                if "/preupload/" in self.path:
                    files = [
                        {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                        for f in json.loads(body)["files"]
                    ]
                    return self.reply({"files": files})
                if "/commit/" in self.path:
                    for line in filter(None, body.splitlines()):
                        entry = json.loads(line)
                        if entry["key"] in ("file", "lfsFile"):
                            hub.committed.add(entry["value"]["path"])
                    return self.reply({"commitUrl": hub.url + "/ada/adapter/commit/" + "1" * 40, "commitOid": "1" * 40, "success": True})
                return self.reply({"url": hub.url + "/ada/adapter", "id": "ada/adapter"})

            def chunked(self):
                out = b""
                while self.headers.get("Transfer-Encoding") == "chunked":
                    size = int(self.rfile.readline(), 16)
                    out += self.rfile.read(size)
                    self.rfile.readline()
                    if size == 0:
                        break
                return out

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def missing_commands():
    missing = sorted(" ".join(name) for name in COMMANDS - used)
    return f"no test runs: {', '.join(missing)}" if missing else None


if __name__ == "__main__":
    main(check=missing_commands)
