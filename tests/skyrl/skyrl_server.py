"""SkyRL's Tinker server on a CPU. TINKER_SKYRL names a folder with `venv`, a Python 3.12 environment with the server's
dependencies, and `source`, a checkout of its repository; docs/servers.md says how to make both."""

import contextlib
import os
import pathlib
import socket
import subprocess
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


@contextlib.contextmanager
def skyrl_server(model=None):
    """Yields its address. `model` is a Hugging Face folder; None: a tiny random model."""
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
        if model is None:
            model = work / "model"
            subprocess.run([home / "venv/bin/python", HERE / "make_model.py", model], check=True, capture_output=True)
        port = free_port()
        command = [
            *("uv", "run", "--no-project", "-m", "skyrl.tinker.api", "--base-model", str(model)),
            *("--host", "127.0.0.1", "--port", str(port), "--checkpoints-base", str(work / "checkpoints")),
            *("--backend-config", '{"max_lora_adapters":4,"max_lora_rank":32}'),
            *("--database-url", f"sqlite:///{work / 'server.db'}"),
        ]
        log = work / "server.log"
        with log.open("w") as out:
            server = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=work)
        try:
            wait_until_ready(server, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()
