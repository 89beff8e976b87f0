"""Starts `tinker serve` for a test, and stops it.

    with Served("build/bin/tinker", "--flag", "proto_compress_fwdbwd=off") as server:
        service = tinker.ServiceClient(base_url=server.url, api_key=server.keys["local"])
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import tokens

BASE_MODEL = "tiny/random"
VOCABULARY = 512
SOURCE = f"random:2x64,vocab={VOCABULARY}"
LOCAL_KEY = "tml-local-test-key"  # without --api-key-file any key will do

START_SECONDS = 60
STOP_SECONDS = 60  # what runs may take 30 to finish
LOG_TAIL_BYTES = 20_000


class Served:
    """A server process with a folder of its own: data, keys, tokenizer and log.

    `keys` maps owners to API keys; without any the server runs without keys. `start` and `stop` may be called again:
    the data folder stays until the end of the `with` block.
    """

    def __init__(self, binary, *options, keys=None, model=BASE_MODEL, source=SOURCE):
        self.binary = str(binary)
        self.keys = keys or {"local": LOCAL_KEY}
        self.url = None
        self.process = None
        self._folder = tempfile.TemporaryDirectory(prefix="tinker-served-", ignore_cleanup_errors=True)
        self.folder = pathlib.Path(self._folder.name)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        # Clients look for a tokenizer by the model's name, and find the folder of that name below the current one.
        tokenizer = self.folder / model
        tokens.write_tokenizer(tokenizer, VOCABULARY)
        self._options = ["--model", f"{model}={source}", "--tokenizer", f"{model}={tokenizer}", "--port", "0"]
        self._options += ["--data-dir", str(self.data), "--json", *map(str, options)]
        if keys:
            self._options += ["--api-key-file", str(self._write_keys())]

    def _write_keys(self):
        file = self.folder / "keys"
        file.touch(mode=0o600)
        file.write_text("".join(f"{owner} {key}\n" for owner, key in self.keys.items()))
        return file

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.show_log()
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, kind, *_):
        self.kill()
        if kind is not None:
            self.show_log()
        self._folder.cleanup()

    def start(self):
        command = [self.binary, "serve", *self._options]
        if shutil.which("setpriv"):  # a test that is killed takes its server along
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        self._log_file = self.log.open("ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log_file, env=self._environment()
        )
        line = self._first_line()
        try:
            ready = json.loads(line)
            assert ready["event"] == "ready", ready
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            self.kill()
            raise RuntimeError(f"the first line of the server is not its 'ready': {line!r} ({error})") from error
        self.url = ready["url"]
        self.pid = ready["pid"]
        threading.Thread(target=self._drain, daemon=True).start()
        return self

    @staticmethod
    def _environment():
        return {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}

    def _first_line(self):
        late = threading.Timer(START_SECONDS, self.process.kill)
        late.start()
        try:
            return self.process.stdout.readline().decode(errors="replace")
        finally:
            late.cancel()

    def _drain(self):
        log = self._log_file
        for line in self.process.stdout:
            log.write(line)
            log.flush()

    def stop(self):
        """Ends it as a service manager would, unless it has ended; yields the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log_text(self):
        return self.log.read_bytes().decode(errors="replace") if self.log.exists() else ""

    def show_log(self):
        print(f"---- log of the server ----\n{self.log_text()[-LOG_TAIL_BYTES:]}----", file=sys.stderr, flush=True)
