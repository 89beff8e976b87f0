"""`./dev bench server`: the embedded server beside what it stands on.

  small      small requests (health, heartbeat) by h2load, beside the bare server of `bench http_server`, which gets the same
             requests and says hello; on one core each
  sample     whole calls of 128 tokens and one new token on a tiny model, one after another, by our client and the official SDK
  sft, rl    steps of 4 x 512 tokens, and iterations (32 samples of 16 tokens, one step), by the official SDK on SmolLM2, with
             `--durable` and without, beside the bare engine doing the same: all in turns, and the sums of all turns count,
             because a journal costs some turns more than others; so does CPU time, which says more on a busy machine. Their
             losses must be equal to the bit
  journal    steps of a tiny model by our client, with `--durable` and without: what the disk costs when nothing else does
  together   one-token samples by our client while the official SDK trains on the same model, and while nobody does
  heartbeat  one after another, while 10,000 samples of a tiny model are in flight
  start      of `tinker serve` with a tiny model, until it says that it is ready, and until the first sample is there, for which
             the model is loaded

SmolLM2 is the GGUF file that TINKER_SMOLLM2 names, or else random weights of its shape. Where TINKER_SKYRL names a SkyRL (see
docs/servers.md), the official SDK trains SmolLM2 there, too, and our client samples: the official one cannot.
"""

import contextlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import engine_area
import http_server_area
from http_server_area import cores, cpu_seconds, verdict

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
sys.path[1:1] = [str(ROOT / "tests" / "server"), str(ROOT / "tests" / "skyrl")]
import served  # noqa: E402: these need the path
import skyrl_server  # noqa: E402
import tokens  # noqa: E402

IS_QUICK = bool(os.environ.get("TINKER_BENCH_QUICK"))  # whether it runs, not how fast
TURNS = 1 if IS_QUICK else 6
STEP = ("--sequences", 1, "--length", 32) if IS_QUICK else ("--sequences", 4, "--length", 512)
CALLS = 20 if IS_QUICK else 200  # of a turn
TINY_STEPS = 50 if IS_QUICK else 1000
IN_FLIGHT = 500 if IS_QUICK else 10_000
TOGETHER_CALLS = 20 if IS_QUICK else 200
THREADS = min(2, os.cpu_count())

SMALL_GOAL, SMALL_LEAST = 0.6, 20_000  # of the bare server, and requests per second of a core
COST_GOAL = 0.95  # of the speed without
HEARTBEAT_GOAL_MS = 100
STARTS = 3 if IS_QUICK else 20
START_GOAL_MS = 100
SKYRL_GOALS = {"training": 9, "sampling of 8": 20, "start to first step": 100}

TINY = served.BASE_MODEL
ENDPOINTS = {"healthz": ("GET", "/api/v1/healthz"), "heartbeat": ("POST", "/api/v1/session_heartbeat")}
KEY = {"TINKER_API_KEY": served.LOCAL_KEY}


def serve(build_dir, *options, **model):
    return served.Served(build_dir / "bin" / "tinker", "--threads", THREADS, *options, **model)


def ask(connection, method, path, body=None):
    headers = {"X-API-Key": served.LOCAL_KEY, "Content-Type": "application/json"}
    connection.request(method, path, body=body and json.dumps(body), headers=headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{method} {path}: {answer.status} {text}")
    return json.loads(text)


def connect(server):
    return http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc)


def new_session(server):
    body = {"tags": [], "sdk_version": "0.36.0", "type": "create_session"}
    return ask(connect(server), "POST", "/api/v1/create_session", body)["session_id"]


def tinker_bench(build_dir, url, kind, calls, in_flight, *options):
    """The report of `tinker bench`."""
    load = ["--base-url", url, "--calls", calls, "--in-flight", in_flight, "--vocab", served.VOCABULARY]
    command = [build_dir / "bin" / "tinker", "bench", kind, *load, *options, "--json"]
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, env={**os.environ, **KEY}).stdout
    return checked(json.loads(output))


def checked(report):
    if report["failed"]:
        raise RuntimeError(f"{report['failed']} of {report['calls']} calls failed: {report['errors']}")
    return report


class Worker:
    """A program that does a piece of work for each line, and says what it took."""

    def __init__(self, *command, environment=None):
        environment = {**os.environ, **KEY, **(environment or {})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(list(map(str, command)), env=environment, **pipes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args} ended with status {self.process.wait()}")
        return json.loads(line)


def sdk(url, model, work, vocabulary, *options):
    command = (sys.executable, HERE / "server_peer.py", model, work, "--vocabulary", vocabulary, *options)
    return Worker(*command, environment={"TINKER_BASE_URL": url})


# ---- small requests ----


def measure_small(build_dir, files, rounds):
    """{(who, endpoint, protocol): [(requests per second, per second of CPU time)]}"""
    server_core, load_core = cores()
    runs = {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as body:
        key = ["-H", f"X-API-Key: {served.LOCAL_KEY}"]
        post = [*key, "-H", "Content-Type: application/json", "-d", body.name]

        def load(who, ports, pid):
            for endpoint, (method, path) in ENDPOINTS.items():
                for protocol in ("h1", "h2"):
                    options = key if method == "GET" else post
                    result = http_server_area.load(protocol, ports[protocol], pid, load_core, path, options)
                    runs.setdefault((who, endpoint, protocol), []).append(result)

        for _ in range(rounds):
            with serve(build_dir, "--no-durable") as server:
                pin = ["taskset", "--all-tasks", "--cpu-list", "--pid", str(server_core), str(server.pid)]
                subprocess.run(pin, check=True, stdout=subprocess.DEVNULL)
                body.seek(0)
                body.write(json.dumps({"session_id": new_session(server)}))
                body.flush()
                port = urllib.parse.urlsplit(server.url).port
                load("tinker", {"h1": port, "h2": port}, server.pid)
            with http_server_area.program(server_core, build_dir / "bin" / "http_server_bench", *files) as (ports, pid):
                load("bare", ports, pid)
    return runs


def small_rows(build_dir, make_row, rounds):
    if not http_server_area.find("h2load"):
        yield make_row("small requests (there is no h2load)", None, "", None, None)
        return
    with http_server_area.identity() as files:
        runs = measure_small(build_dir, files, rounds)
    best = {key: [max(figure) for figure in zip(*each)] for key, each in runs.items()}
    for (who, endpoint, protocol), bare in best.items():
        if who != "bare":
            continue
        ours = best["tinker", endpoint, protocol]
        for what, unit, value in http_server_area.FIGURES:
            row = make_row(f"small {endpoint} {protocol}, {what}", value(ours), unit, "bare server", value(bare))
            if what == "requests per CPU second":
                is_met = row["ratio"] >= SMALL_GOAL and row["value"] >= SMALL_LEAST
                row["verdict"] = verdict(is_met, f"{SMALL_GOAL}x of the bare server and {SMALL_LEAST}/s")
            yield row


# ---- whole sample calls ----


def sample_rows(build_dir, make_row, rounds):
    options = ("--prompt-tokens", 128, "--max-tokens", 1)
    with serve(build_dir, "--no-durable") as server:
        ours, theirs = [], []
        with sdk(server.url, TINY, "sample", served.VOCABULARY, "--calls", CALLS, *options) as peer:
            peer.turn()
            for _ in range(rounds):
                report = tinker_bench(build_dir, server.url, "sample", CALLS, 1, *options, "--warmup", CALLS)
                ours.append((report["seconds"] / CALLS, report["cpu_us_per_call"] * 1e-6))
                turn = peer.turn()
                theirs.append((turn["seconds"] / CALLS, turn["cpu_seconds"] / CALLS))
    name = turn["peer"]
    for what, i in (("time", 0), ("CPU of the client", 1)):
        best = [min(run[i] for run in runs) * 1e3 for runs in (ours, theirs)]
        yield make_row(f"sample 128 + 1 tokens, {what} of a call", best[0], "ms", name, best[1])


# ---- training ----


class Contender:
    """Somebody who does the same work as others in turn, and the process that computes for it."""

    def __init__(self, name, worker, pid=None):
        self.name, self.worker, self.pid = name, worker, pid or worker.process.pid
        self.turns, self.server_cpu, self.client_cpu = [], 0, 0

    def warm_up(self):
        self.worker.turn()

    def turn(self):
        before = cpu_seconds(self.pid)
        self.turns.append(self.worker.turn())
        self.server_cpu += cpu_seconds(self.pid) - before
        self.client_cpu += self.turns[-1].get("cpu_seconds", 0)

    @property
    def rate(self):
        return len(self.turns) / sum(turn["seconds"] for turn in self.turns)

    @property
    def cpu(self):
        return (self.server_cpu + self.client_cpu) / len(self.turns)

    @property
    def median(self):
        return statistics.median(turn["seconds"] for turn in self.turns)


def take_turns(contenders):
    for contender in contenders:
        contender.warm_up()
    for _ in range(TURNS):
        for contender in contenders:
            contender.turn()
    losses = [[turn["loss"] for turn in contender.turns] for contender in contenders]
    if any(each != losses[0] for each in losses):
        raise RuntimeError(f"not the same work: the losses are {losses}")


def training_rows(build_dir, make_row, folder, vocabulary, work):
    model = {"model": "smollm2", "source": folder}
    size = STEP if work == "sft" else ()
    engine = (build_dir / "bin" / "engine_bench", "model", folder, "--what", f"{work}_turns", "--threads", THREADS, *size)
    with contextlib.ExitStack() as stack:

        def contender(option):
            server = stack.enter_context(serve(build_dir, option, **model))
            return Contender(option, stack.enter_context(sdk(server.url, "smollm2", work, vocabulary, *size)), server.pid)

        bare = Contender("bare engine", stack.enter_context(Worker(*engine)))
        plain, durable = contender("--no-durable"), contender("--durable")
        take_turns([bare, plain, durable])
    unit = "steps/s" if work == "sft" else "iterations/s"
    for ours, peer in ((plain, bare), (durable, plain)):
        label = f"{work} smollm2 {ours.name}"
        row = make_row(f"{label}, sum of {TURNS}", ours.rate, unit, peer.name, peer.rate)
        yield row | {"verdict": verdict(row["ratio"] >= COST_GOAL, f"{COST_GOAL}x")}
        yield make_row(f"{label}, median", ours.median, "s", peer.name, peer.median)
        row = make_row(f"{label}, CPU with the client's", ours.cpu, "s", peer.name, peer.cpu)
        yield row | {"verdict": verdict(row["ratio"] >= COST_GOAL, f"{COST_GOAL}x")}
    yield make_row(f"{work} smollm2, CPU of the official SDK", plain.client_cpu / TURNS * 1e3, "ms", None, None)


def journal_rows(build_dir, make_row, rounds):
    steps = {}
    for _ in range(rounds):
        for option in ("--durable", "--no-durable"):
            with serve(build_dir, option) as server:
                size = ("--data", 4, "--prompt-tokens", 64, "--warmup", 20)
                report = tinker_bench(build_dir, server.url, "train", TINY_STEPS, 1, *size)
                steps.setdefault(option, []).append(report["seconds"] / TINY_STEPS * 1e3)
    best = {option: min(each) for option, each in steps.items()}
    yield make_row("journal step of a tiny model, --durable", best["--durable"], "ms", "--no-durable", best["--no-durable"])


# ---- sampling while training runs ----


def together_rows(build_dir, make_row, folder, vocabulary):
    options = ("--prompt-tokens", 32, "--max-tokens", 1)
    is_over = threading.Event()
    with serve(build_dir, "--no-durable", model="smollm2", source=folder) as server:
        with sdk(server.url, "smollm2", "sft", vocabulary, *STEP) as trainer:
            trainer.turn()
            alone = tinker_bench(build_dir, server.url, "sample", TOGETHER_CALLS, 1, *options, "--warmup", 5)

            def train():
                while not is_over.is_set():
                    trainer.turn()

            training = threading.Thread(target=train)
            training.start()
            try:
                beside = tinker_bench(build_dir, server.url, "sample", TOGETHER_CALLS, 1, *options, "--warmup", 5)
            finally:
                is_over.set()
                training.join()
    for quantile in ("p50", "p99"):
        values = [report["latency_ms"][quantile] for report in (beside, alone)]
        yield make_row(f"together one-token sample while training runs, {quantile}", values[0], "ms", "alone", values[1])


# ---- heartbeats ----


def loop_thread(pid):
    """The server's thread on which all requests are answered."""
    tasks = sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    return next(task for task in tasks if (task / "comm").read_text().strip() == "tinker-server")


def seconds_without_processor(thread):
    """That a thread was ready to run, but others did."""
    return int((thread / "schedstat").read_text().split()[1]) * 1e-9


def beats_while(process, server, session):
    """Of each its seconds, and those without the time that both sides waited for a processor."""
    connection, out = connect(server), []
    threads = [loop_thread(server.pid), pathlib.Path(f"/proc/self/task/{threading.get_native_id()}")]
    while process.poll() is None:
        waited, start = sum(map(seconds_without_processor, threads)), time.perf_counter()
        ask(connection, "POST", "/api/v1/session_heartbeat", {"session_id": session})
        seconds = time.perf_counter() - start
        out.append((seconds, seconds - (sum(map(seconds_without_processor, threads)) - waited)))
        time.sleep(0.002)
    return [sorted(figure) for figure in zip(*out)]


def heartbeat_rows(build_dir, make_row):
    with serve(build_dir, "--no-durable") as server:
        session = new_session(server)
        load = ["--base-url", server.url, "--calls", 2 * IN_FLIGHT, "--in-flight", IN_FLIGHT, "--vocab", served.VOCABULARY]
        command = [build_dir / "bin" / "tinker", "bench", "sample", *load, "--prompt-tokens", 32, "--max-tokens", 16, "--json"]
        pipe = {"stdout": subprocess.PIPE, "text": True, "env": {**os.environ, **KEY}}
        process = subprocess.Popen(list(map(str, command)), **pipe)
        beats, ready_beats = beats_while(process, server, session)
        report = checked(json.loads(process.communicate()[0]))
    label = f"heartbeat with {IN_FLIGHT} samples in flight"
    for what, share in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
        value = beats[min(len(beats) - 1, int(share * len(beats)))] * 1e3
        row = make_row(f"{label}, {what} of {len(beats)}", value, "ms", "limit", HEARTBEAT_GOAL_MS)
        yield row | {"verdict": verdict(value <= HEARTBEAT_GOAL_MS, f"{HEARTBEAT_GOAL_MS} ms")}
    yield make_row(f"{label}, max without waits for a processor", ready_beats[-1] * 1e3, "ms", None, None)
    yield make_row(f"{label}, samples", report["calls"] / report["seconds"], "1/s", None, None)


# ---- start ----


def first_sample(server):
    """Waits for a sample of the base model."""
    connection = connect(server)
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}
    request = {"base_model": TINY, "prompt": prompt, "num_samples": 1, "sampling_params": {"max_tokens": 1}}
    promise = ask(connection, "POST", "/api/v1/asample", request)
    result = ask(connection, "POST", "/api/v1/retrieve_future", {"request_id": promise["request_id"]})
    if len(result["sequences"]) != 1:
        raise RuntimeError(f"no sample: {result}")


def start_rows(build_dir, make_row):
    ready, sampled = [], []
    for _ in range(STARTS):
        server = serve(build_dir, "--no-durable")
        begun = time.perf_counter()
        with server:
            ready.append((time.perf_counter() - begun) * 1e3)
            first_sample(server)
            sampled.append((time.perf_counter() - begun) * 1e3)
    value = statistics.median(ready)
    row = make_row(f"start until ready, median of {STARTS}", value, "ms", "limit", START_GOAL_MS)
    yield row | {"verdict": verdict(value <= START_GOAL_MS, f"{START_GOAL_MS} ms")}
    yield make_row(f"start until the first sample, median of {STARTS}", statistics.median(sampled), "ms", None, None)


# ---- SkyRL ----


def first_and_best_step(url, model, vocabulary):
    """Seconds until the first step of training has ended, and of the best of some."""
    start = time.monotonic()
    with sdk(url, model, "sft", vocabulary, *STEP) as trainer:
        trainer.turn()
        first = time.monotonic() - start
        return first, min(trainer.turn()["seconds"] for _ in range(TURNS))


def on_server(build_dir, server, model, vocabulary):
    """What skyrl_rows compares, of a server that starts when `server` is entered."""
    start = time.monotonic()
    with server as running:
        url, starting = getattr(running, "url", running), time.monotonic() - start
        first, best = first_and_best_step(url, model, vocabulary)
        options = ("--model", model, "--prompt-tokens", 32, "--max-tokens", 32, "--warmup", 8)
        report = tinker_bench(build_dir, url, "sample", 16, 8, *options)
        return {
            "training": (1 / best, "steps/s"),
            "sampling of 8": (32 * report["calls_per_s"], "tok/s"),
            "start to first step": (starting + first, "s"),
        }


def skyrl_rows(build_dir, make_row, folder, vocabulary):
    if not os.environ.get("TINKER_SKYRL"):
        return [make_row("skyrl (TINKER_SKYRL names none)", None, "", None, None)]
    tokens.write_tokenizer(folder, vocabulary)
    server = serve(build_dir, "--no-durable", model="smollm2", source=folder)
    ours = on_server(build_dir, server, "smollm2", vocabulary)
    theirs = on_server(build_dir, skyrl_server.skyrl_server(folder), str(folder), vocabulary)
    rows = []
    for what, goal in SKYRL_GOALS.items():
        row = make_row(f"skyrl, {what}", *ours[what], "SkyRL", theirs[what][0])
        rows.append(row | {"verdict": verdict(row["ratio"] >= goal, f"{goal}x")})
    return rows


def model_folder(build_dir, folder):
    """SmolLM2, and its vocabulary."""
    program, file = build_dir / "bin" / "engine_bench", os.environ.get("TINKER_SMOLLM2")
    if not file:
        print("smollm2 has random weights, for TINKER_SMOLLM2 names no file", file=sys.stderr)
    shape = "d512" if IS_QUICK else "smollm2"
    command = [program, "convert", file, folder] if file else [program, "make", shape, folder]
    subprocess.run(command, check=True)
    return json.loads((folder / "config.json").read_text())["vocab_size"]


def measure(build_dir, make_row, rounds):
    rounds = 1 if IS_QUICK else rounds
    rows = [make_row("busy with other programs", engine_area.busy_percent(), "%", None, None)]
    rows += small_rows(build_dir, make_row, rounds)
    rows += sample_rows(build_dir, make_row, rounds)
    rows += journal_rows(build_dir, make_row, rounds)
    rows += heartbeat_rows(build_dir, make_row)
    rows += start_rows(build_dir, make_row)
    with tempfile.TemporaryDirectory(dir=build_dir) as name:
        folder = pathlib.Path(name) / "smollm2"
        vocabulary = model_folder(build_dir, folder)
        for work in ("sft", "rl"):
            rows += training_rows(build_dir, make_row, folder, vocabulary, work)
        rows += together_rows(build_dir, make_row, folder, vocabulary)
        rows += skyrl_rows(build_dir, make_row, folder, vocabulary)
    return rows
