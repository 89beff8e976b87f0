"""Runs our clients against SkyRL's Tinker server on a CPU: run.py PROGRAM [ARGUMENT...]

TINKER_SKYRL names a folder with `venv`, a Python 3.12 environment with the server's dependencies, and `source`, a checkout of
its repository; docs/servers.md says how to make both. PROGRAM gets the server's address by TINKER_BASE_URL.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
READY = "Starting background engine..."
START_SECONDS = 600


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(server, log):
    for _ in range(START_SECONDS):
        if READY in log.read_text(errors="replace"):
            return
        if server.poll() is not None:
            break
        time.sleep(1)
    raise SystemExit(f"the server did not start; the end of its log:\n{log.read_text(errors='replace')[-3000:]}")


def main():
    home = pathlib.Path(os.environ["TINKER_SKYRL"]).resolve()
    environment = {
        **os.environ,
        "VIRTUAL_ENV": str(home / "venv"),
        "PATH": f"{home / 'venv/bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(home / "source"),
        "HF_HUB_OFFLINE": "1",
        "JAX_PLATFORMS": "cpu",
        "UV_OFFLINE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        subprocess.run([home / "venv/bin/python", HERE / "make_model.py", work / "model"], check=True, capture_output=True)
        port = free_port()
        command = [
            *("uv", "run", "--no-project", "-m", "skyrl.tinker.api", "--base-model", str(work / "model")),
            *("--host", "127.0.0.1", "--port", str(port), "--checkpoints-base", str(work / "checkpoints")),
            *("--backend-config", '{"max_lora_adapters":4,"max_lora_rank":16}'),
            *("--database-url", f"sqlite:///{work / 'server.db'}"),
        ]
        log = work / "server.log"
        with log.open("w") as out:
            server = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=work)
        try:
            wait_until_ready(server, log)
            address = {"TINKER_BASE_URL": f"http://127.0.0.1:{port}", "TINKER_API_KEY": "tml-any"}
            return subprocess.run(sys.argv[1:], env={**os.environ, **address}).returncode
        finally:
            server.terminate()
            server.wait()


sys.exit(main())
