#!/usr/bin/env python3
"""Training runs of the official SDK go on while their server is killed and started again.

The same runs are made twice: undisturbed, and with `kill -9` at random moments, while they train, save,
overwrite, delete and sample, and while checkpoints expire. Losses, samples with seeds, and the bytes of
every checkpoint must be equal, the optimizers' states included; exactly those that were acknowledged,
and neither deleted nor expired, must be there, and load. Beside them samples without seeds are drawn, all
of which must be answered: their bits cannot be compared, since the server's seeds are of one data folder
and one session. Nothing is told to the clients.

    going_on.py TINKER_COMMAND    TINKER_CRASH_KILLS: how many kills (5); TINKER_CRASH_SEED: of the moments,
                                  and of the precision of the model
"""

import concurrent.futures
import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings

os.environ.setdefault("TINKER_API_KEY", "tml-local-test")
os.environ["TINKER_TELEMETRY"] = "0"

import tinker  # noqa: E402
from tinker import types  # noqa: E402

warnings.simplefilter("ignore")  # a call that the SDK deprecates

MODEL = "tiny"
CLIENTS = 2  # at once
STEPS_BEFORE_AN_END = 12  # also when the kills are over
KEPT = 3  # of the checkpoints step-N: older ones are deleted


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`tinker serve` with one data folder and one port, whatever happens to the process."""

    def __init__(self, command: str, folder: pathlib.Path, dtype: str) -> None:
        self.port = free_port()
        self.log = open(folder / "server.log", "ab")
        self.data = folder / "data"
        self.command = [
            command, "serve", "--json", "--model", f"{MODEL}=random:2x64,vocab=512", "--dtype", dtype,
            "--threads", "1", "--port", str(self.port), "--data-dir", str(self.data),
            "--durable", "--snapshot-steps", "3", "--limit", "sweep_time=5ms",
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)

    def wait_until_ready(self) -> None:
        while self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)

    def catalogue(self) -> sqlite3.Connection:
        return sqlite3.connect(self.data / "catalogue.db", isolation_level=None, timeout=60)

    def let_some_expire(self) -> None:
        """Between two lives: the sweeper of the next one finds them."""
        catalogue = self.catalogue()
        catalogue.execute("UPDATE checkpoints SET expires_at = 1 WHERE name LIKE 'short-lived-%'")
        catalogue.close()

    def checkpoints(self, runs: list[str]) -> dict[str, list[bytes]]:
        """What each checkpoint of the runs has, by the run's place among them, its kind and its name."""
        catalogue = self.catalogue()
        listed = catalogue.execute("SELECT run_id, kind, name, folder FROM checkpoints WHERE expires_at != 1").fetchall()
        catalogue.close()
        content = {}
        for run_id, kind, name, folder in listed:
            files = sorted((self.data / "checkpoints" / folder).glob("*.safetensors"))
            content[f"{runs.index(run_id)}/{kind}/{name}"] = [file.read_bytes() for file in files]
        return content

    def kill(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended by itself with status {self.process.returncode}")
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Killer(threading.Thread):
    """Kills and starts the server again, at random moments."""

    def __init__(self, server: Server, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.server, self.kills, self.random = server, kills, random.Random(seed)
        self.progress = threading.Event()  # the client has taken a step
        self.is_over = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for _ in range(self.kills):
                self.server.wait_until_ready()
                # Mostly while the client trains, now and then while the server still catches up.
                if self.random.random() < 0.8:
                    self.progress.clear()
                    self.progress.wait(30)
                time.sleep(self.random.uniform(0, 0.3))
                self.server.kill()
                self.server.let_some_expire()
                time.sleep(self.random.uniform(0, 0.1))
                self.server.start()
        except BaseException as error:  # noqa: BLE001
            self.error = error
        self.is_over.set()


def datum(step: int, row: int) -> types.Datum:
    tokens = [(step * 31 + row * 17 + i * 7) % 500 + 1 for i in range(9)]
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": types.TensorData(data=tokens[1:], dtype="int64", shape=[8]),
            "weights": types.TensorData(data=[1.0] * 8, dtype="float32", shape=[8]),
        },
    )


class Client:
    """A run of a client of its own."""

    def __init__(self, url: str, number: int) -> None:
        self.url, self.number = url, number
        self.service = tinker.ServiceClient(base_url=url)
        self.trainer = self.service.create_lora_training_client(MODEL, rank=4, seed=7 + number)
        self.steps = 0
        self.losses, self.samples = [], []
        self.rest = tinker.RestClient(base_url=url)
        self.paths = {}  # of acknowledged checkpoints, by name

    def train(self, steps: int | None, killer: Killer) -> None:
        """`steps` steps, or as long as there are kills and some more."""
        rest = 0
        while (self.steps < steps) if steps is not None else (rest < STEPS_BEFORE_AN_END):
            rest += killer.is_over.is_set()
            self.step(self.steps)
            self.steps += 1
            killer.progress.set()

    def step(self, step: int) -> None:
        trainer = self.trainer
        data = [datum(step + 100 * self.number, row) for row in range(3)]
        gradients = trainer.forward_backward(data, "cross_entropy")
        update = trainer.optim_step(types.AdamParams(learning_rate=1e-2))
        self.losses.append([list(output["logprobs"].data) for output in gradients.result().loss_fn_outputs])
        update.result()
        if step % 4 == 1:
            self.save("latest", overwrite=True)
        if step % 5 == 2:
            self.save(f"step-{step}")
        if step % 10 == 7:
            self.paths[f"sampler-{step}"] = trainer.save_weights_for_sampler(f"sampler-{step}").result().path
            trainer.save_state(f"short-lived-{step}", ttl_seconds=3600).result()
        self.delete_old()
        if step % 9 == 6:  # it is replaced soon
            trainer.load_state_with_optimizer(self.paths["latest"]).result()
        if step % 5 == 3:
            sampler = trainer.save_weights_and_get_sampling_client()
            params = types.SamplingParams(max_tokens=8, seed=step, stop=[])
            answer = sampler.sample(types.ModelInput.from_ints([5, 9, 12]), 2, params).result()
            self.samples.append([list(sequence.tokens) for sequence in answer.sequences])

    def save(self, name: str, overwrite: bool = False) -> None:
        self.paths[name] = self.trainer.save_state(name, overwrite=overwrite).result().path

    def delete_old(self) -> None:
        """A delete that is asked for again, because its answer was lost, finds nothing."""
        for name in [name for name in self.paths if name.startswith("step-")][:-KEPT]:
            try:
                self.rest.delete_checkpoint_from_tinker_path(self.paths.pop(name)).result()
            except tinker.NotFoundError:
                pass

    def check_checkpoints(self) -> None:
        """All that were acknowledged are listed, nothing else is, and those of training load."""
        listed = {checkpoint.tinker_path for checkpoint in self.rest.list_checkpoints(self.trainer.model_id).result().checkpoints}
        listed = {path for path in listed if "/short-lived-" not in path}
        if listed != set(self.paths.values()):
            raise SystemExit(f"acknowledged: {self.paths}\nlisted: {listed}")
        for path in self.paths.values():
            if "/sampler_weights/" not in path:
                self.service.create_training_client_from_state(path)


class Sampling(threading.Thread):
    """Samples without seeds, until it is told to stop. Each is answered."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.is_over = threading.Event()
        self.answers = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            sampler = tinker.ServiceClient(base_url=self.url).create_sampling_client(base_model=MODEL)
            prompt, params = types.ModelInput.from_ints([5, 9, 12]), types.SamplingParams(max_tokens=8)
            while not self.is_over.is_set():
                waiting = [sampler.sample(prompt, 2, params) for _ in range(4)]
                self.answers += sum(len(one.result().sequences) == 2 for one in waiting)
        except BaseException as error:  # noqa: BLE001
            self.error = error


def run(
    command: str, folder: pathlib.Path, dtype: str, kills: int, seed: int, steps: list[int | None]
) -> tuple[list[Client], dict[str, list[bytes]]]:
    """One client for each of `steps`, all at once; and the checkpoints at the end."""
    folder.mkdir()
    server = Server(command, folder, dtype)
    killer = Killer(server, kills, seed)
    url = f"http://127.0.0.1:{server.port}"
    sampling = Sampling(url)
    try:
        killer.start()
        sampling.start()
        clients = [Client(url, number) for number in range(len(steps))]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for done in [pool.submit(client.train, count, killer) for client, count in zip(clients, steps, strict=True)]:
                done.result()
        killer.join()
        sampling.is_over.set()
        sampling.join()
        if killer.error or sampling.error:
            raise killer.error or sampling.error
        if not sampling.answers:
            raise RuntimeError("no sample was answered")
        for client in clients:
            client.save("end")
        for client in clients:
            client.check_checkpoints()
        return clients, server.checkpoints([client.trainer.model_id for client in clients])
    except BaseException:
        sys.stderr.write((folder / "server.log").read_text()[-4000:])
        raise
    finally:
        server.close()


def compare(what: str, disturbed: list, calm: list) -> None:
    for i, (one, other) in enumerate(zip(disturbed, calm, strict=True)):
        if one != other:
            raise SystemExit(f"{what} {i} differ:\n{json.dumps(one)}\n{json.dumps(other)}")


def main() -> None:
    kills = int(os.environ.get("TINKER_CRASH_KILLS", "5"))
    seed = int(os.environ.get("TINKER_CRASH_SEED", str(random.randrange(10**6))))
    dtype = random.Random(seed).choice(["f32", "bf16"])
    print(f"{kills} kills, {dtype}, TINKER_CRASH_SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        began = time.monotonic()
        disturbed, its_checkpoints = run(sys.argv[1], root / "disturbed", dtype, kills, seed, [None] * CLIENTS)
        steps = [client.steps for client in disturbed]
        print(f"{steps} steps in {time.monotonic() - began:.1f} s", flush=True)
        calm, calm_checkpoints = run(sys.argv[1], root / "calm", dtype, 0, seed, steps)
        for its, calm_one in zip(disturbed, calm, strict=True):
            compare("losses", its.losses, calm_one.losses)
            compare("samples", its.samples, calm_one.samples)
        for checkpoints in (its_checkpoints, calm_checkpoints):
            for name in [name for name in checkpoints if "/short-lived-" in name]:
                del checkpoints[name]  # whether they have expired depends on the kills
        print(f"{len(calm_checkpoints)} checkpoints", flush=True)
        if its_checkpoints.keys() != calm_checkpoints.keys():
            raise SystemExit(f"killed: {sorted(its_checkpoints)}\ncalm: {sorted(calm_checkpoints)}")
        different = [name for name, content in calm_checkpoints.items() if content != its_checkpoints[name]]
        if different or not all(calm_checkpoints.values()):
            raise SystemExit(f"of {len(calm_checkpoints)} checkpoints these differ: {different}")
    print("equal in every bit")


if __name__ == "__main__":
    main()
