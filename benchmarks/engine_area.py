"""`./dev bench engine`: training and sampling on this machine; with --peers beside PyTorch and llama.cpp.

Two models: d512 (12 layers, d 512, ffn 1408, vocabulary 32,000) with random weights, and SmolLM2-135M, the GGUF file that
TINKER_SMOLLM2 names or else random weights of its shape. Everybody gets the same weights, as bf16, and the same tokens.

  lora_step  4 x 512 tokens, rank 16 on the seven projections, cross entropy, AdamW; FLOP are those of forward, d/dx,
             adapters and attention, whether more are done or not
  memory     the largest of a process that does nothing but such steps
  prefill    a prompt of 512 tokens, and one new token
  decode     32 new tokens of each sequence of a batch behind a prompt of 32, without the time for the prompts
  sharing    steps of 4 x 512 tokens beside one request after another of 32 tokens each, a token at a time: what is left of
             the speed that each has alone, and the longest time between two tokens beside three quanta of the scheduler
  gemm       products with packed weights, m x n x k, beside multiply-adds that only touch registers

All of it with the fastest kernels that the machine has, or those that TINKER_CPU names. With the others, steps of d512 that
are smaller, as their rows say, and, once and with the most threads, smollm2 and the products; with the scalar ones steps
of a few tokens, and nothing else.

Ours and theirs take turns, and the best of each counts. Threads that wait for each other suffer most from a busy machine,
so a row says how busy it was with other things; ratios of a busy one are not worth quoting. llama.cpp gets the better of
spinning and of sleeping threads, and draws no tokens; transformers generates greedily; ours are drawn at temperature 1,
with their logprobs.
"""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from http_server_area import verdict

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent

IS_QUICK = bool(os.environ.get("TINKER_BENCH_QUICK"))  # whether it runs, not how fast
MODELS = ("d512",) if IS_QUICK else ("d512", "smollm2")
PRECISIONS = ("f32", "bf16")
THREADS = (2,) if IS_QUICK else (1, 2)
BATCHES = "1,2" if IS_QUICK else "1,8,64"
STEP = (1, 32) if IS_QUICK else (4, 512)  # sequences, and tokens of each
STEP_OF_OTHER_PATHS = (1, 32) if IS_QUICK else (1, 512)
STEP_OF_SCALAR = (1, 4)  # which takes a second for two of them
REPETITIONS = 1 if IS_QUICK else 2
LOSS_TOLERANCE = 0.01
SHARE_GOAL = 0.4  # of its own speed, for training and for sampling beside each other
GAP_GOAL_QUANTA = 3  # between two tokens of a sample
BUSY_SECONDS = 0.5


def run(*command, environment=None):
    """The JSON objects that a program prints, one a line."""
    environment = {**os.environ, **(environment or {})}
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return [json.loads(line) for line in output.stdout.splitlines()]


def busy_percent():
    """Of all processors, while nothing here runs."""

    def times():
        with open("/proc/stat") as file:
            user, nice, system, idle, waiting, *rest = map(int, file.readline().split()[1:])
        return user + nice + system + sum(rest[:3]), idle + waiting

    before = times()
    time.sleep(BUSY_SECONDS)
    busy, idle = (after - then for after, then in zip(times(), before))
    return 100 * busy / max(1, busy + idle)


class Best:
    """Rows of several runs by what they measure: of each number the best one."""

    def __init__(self):
        self.rows, self.names = {}, {}

    def add(self, who, setting, rows):
        for row in rows:
            if row["what"] == "peer":
                self.names[who] = row["name"]
                continue
            what = f"decode b{row['batch']:.0f}" if row["what"] == "decode" else row["what"]
            best = self.rows.setdefault((who, what, *setting), row)
            for number in {"seconds", "megabytes"} & row.keys():
                best[number] = min(best[number], row[number])

    def row(self, who, what, *setting):
        return self.rows.get((who, what, *setting))


def model_folders(program, folder):
    """{name: folder} of models, made there."""
    folders = {name: folder / name for name in MODELS}
    for name, place in folders.items():
        file = os.environ.get("TINKER_SMOLLM2") if name == "smollm2" else None
        if name == "smollm2" and not file:
            print("smollm2 has random weights, for TINKER_SMOLLM2 names no file", file=sys.stderr)
        subprocess.run([program, "convert", file, place] if file else [program, "make", name, place], check=True)
    return folders


def bench_step(program, model, precision, threads, step, *options, repetitions=REPETITIONS, environment=None):
    setting = ["--precision", precision, "--threads", threads, "--repetitions", repetitions]
    size = ["--sequences", step[0], "--length", step[1]]
    return run(*program, model, "--what", "lora_step", *setting, *size, *options, environment=environment)


def bench_sampling(program, model, precision, threads, *options, repetitions=REPETITIONS, environment=None):
    setting = ["--precision", precision, "--threads", threads, "--repetitions", repetitions]
    what = ["--what", "prefill,decode", "--batches", BATCHES]
    return run(*program, model, *what, *setting, *options, environment=environment)


def sharing_rows(program, path, models, make_row):
    """How the engine is shared: with the most threads, in bf16."""
    threads = max(THREADS)
    size = ["--sequences", STEP[0], "--length", STEP[1], "--repetitions", REPETITIONS + 1]
    options = ["--precision", "bf16", "--threads", threads, "--cpu", path, *size]
    for name, model in models.items():
        (row,) = run(program, "model", model, "--what", "sharing", *options)
        label = label_of("sharing", name, "bf16", path, threads=threads)
        for what, unit in (("train", "steps/s"), ("decode", "tok/s")):
            share = make_row(f"{label}, {what}", row[f"{what}_beside"], unit, "alone", row[f"{what}_alone"])
            yield share | {"verdict": verdict(share["ratio"] >= SHARE_GOAL, f"{SHARE_GOAL}x")}
        gap, most = row["longest_gap_beside"] * 1e3, GAP_GOAL_QUANTA * row["quantum"] * 1e3
        gap_row = make_row(f"{label}, longest gap", gap, "ms", f"{GAP_GOAL_QUANTA} quanta", most)
        yield gap_row | {"verdict": verdict(gap <= most, f"{most:.0f} ms")}


class Torch:
    """engine_peer.py in the Python of the peers.

    Some virtual machines have AMX but do not say how large its tiles are; products of bf16 then end PyTorch with an
    illegal instruction. There it runs without AMX, and its name says so.
    """

    PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}

    def __init__(self, python):
        self.program = (python, HERE / "engine_peer.py")
        self.environment = {}
        if subprocess.run([python, "-c", self.PROBE]).returncode == -signal.SIGILL:
            self.environment = self.WITHOUT_AMX

    def named(self, rows):
        suffix = " without AMX" if self.environment else ""
        return [{**row, "name": row["name"] + suffix} if row["what"] == "peer" else row for row in rows]

    def measure(self, best, name, model, precision, threads):
        work, setting = (self.program, model, precision, threads), (name, precision, threads)
        best.add("torch", setting, self.named(bench_step(*work, STEP, environment=self.environment)))
        if threads == max(THREADS):
            best.add("torch", setting, self.named(bench_sampling(*work, environment=self.environment)))


class LlamaCpp:
    """engine_llama_peer.py, likewise."""

    def __init__(self, python, models):
        self.program = (python, HERE / "engine_llama_peer.py")
        self.files = {model: model.with_suffix(".gguf") for model in models.values()}
        for model, file in self.files.items():
            run(*self.program, "convert", model, file)

    def measure(self, best, name, model, precision, threads):
        if precision != "bf16" or threads != max(THREADS):
            return
        command = [*self.program, "measure", self.files[model], "--what", "prefill,decode", "--batches", BATCHES]
        options = ["--threads", threads, "--repetitions", REPETITIONS]
        for environment in ({}, {"OMP_WAIT_POLICY": "PASSIVE"}):
            best.add("llama.cpp", (name, precision, threads), run(*command, *options, environment=environment))


class Ours:
    """engine_bench with some kernels."""

    def __init__(self, program, path):
        self.program, self.path = program, path

    def measure(self, best, name, model, precision, threads):
        command, kernels = (self.program, "model"), ("--cpu", self.path)
        setting = (name, precision, threads)
        best.add("ours", setting, bench_step(command, model, precision, threads, STEP, *kernels))
        best.add("ours", setting, bench_sampling(command, model, precision, threads, *kernels))

    def kernel_rows(self, peaks, make_row, threads, repetitions=REPETITIONS):
        """Of products; fills in the peaks."""
        for precision, count in itertools.product(PRECISIONS, threads):
            options = ["--precision", precision, "--threads", count, "--cpu", self.path]
            rows = run(self.program, "kernels", *options, "--repetitions", repetitions)
            peaks[precision, count] = peak = rows[0]["gflops"] or None
            for row in rows[1:]:
                shape = f"{row['m']}x{row['n']}x{row['k']}"
                label = label_of("gemm", shape, precision, self.path, threads=count)
                yield beside_peak(make_row, label, row["gflops"], peak)

    def small_rows(self, models, make_row):
        """Of less work, to be compared with that of other kernels."""
        command, kernels = (self.program, "model"), ("--cpu", self.path)
        step = STEP_OF_SCALAR if self.path == "scalar" else STEP_OF_OTHER_PATHS
        best, peaks, products = Best(), {}, []
        for precision, threads in itertools.product(PRECISIONS, THREADS):
            rows = bench_step(command, models["d512"], precision, threads, step, *kernels)
            best.add("ours", ("d512", precision, threads), rows)
        if self.path != "scalar":
            name, threads = MODELS[-1], max(THREADS)
            for precision in PRECISIONS:
                work = (command, models[name], precision, threads)
                rows = bench_step(*work, step, *kernels, repetitions=1)
                rows += bench_sampling(*work, *kernels, repetitions=1)
                best.add("ours", (name, precision, threads), rows)
            products = list(self.kernel_rows(peaks, make_row, (threads,), repetitions=1))
        return [*model_rows(best, self.path, peaks, make_row, step), *products]


def check_losses(best):
    """The same weights and tokens have the same loss, or it is not the same work."""
    for (who, what, *setting), row in best.rows.items():
        if what != "lora_step" or who == "ours":
            continue
        ours, theirs = best.row("ours", what, *setting)["first_loss"], row["first_loss"]
        if abs(ours / theirs - 1) > LOSS_TOLERANCE:
            raise RuntimeError(f"{setting}: our first loss is {ours}, that of {who} {theirs}")


def speed(row):
    return row["tokens"] / row["seconds"]


def label_of(*words, threads):
    return f"{' '.join(words)}, {threads} thread{'s' * (threads > 1)}"


def beside_peak(make_row, label, gflops, peak):
    return make_row(label, gflops, "GFLOP/s", "register peak" if peak else None, peak)


def model_rows(best, path, peaks, make_row, step=None):
    """A row for each peer that has done the same, or one without. A step of another size is named."""
    for (who, what, name, precision, threads), row in best.rows.items():
        if who != "ours":
            continue
        unit, value = ("MB", lambda row: row["megabytes"]) if what == "memory" else ("tok/s", speed)
        size = [f"{step[0]}x{step[1]}"] if step and what in ("lora_step", "memory") else []
        label = label_of(what, name, precision, path, *size, threads=threads)
        beside = [(peer, best.row(who, what, name, precision, threads)) for who, peer in best.names.items()]
        beside = [(peer, value(theirs)) for peer, theirs in beside if theirs]
        for peer, theirs in beside or [(None, None)]:
            yield make_row(label, value(row), unit, peer, theirs)
        if "flop" in row and (precision, threads) in peaks:
            gflops = row["flop"] / row["seconds"] * 1e-9
            yield beside_peak(make_row, f"{label}, FLOP", gflops, peaks[precision, threads])


def measure_all(build_dir, make_row, rounds, make_peers):
    program = build_dir / "bin" / "engine_bench"
    paths = subprocess.run([program, "paths"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    ours = Ours(program, os.environ.get("TINKER_CPU") or paths[-1])
    with tempfile.TemporaryDirectory(dir=build_dir) as folder:
        models = model_folders(program, pathlib.Path(folder))
        everybody = [ours, *make_peers(models)]
        best, peaks, busy = Best(), {}, []
        kernels = list(ours.kernel_rows(peaks, make_row, THREADS))
        for _ in range(rounds):
            for name, precision, threads in itertools.product(models, PRECISIONS, THREADS):
                busy.append(busy_percent())
                for one in everybody:
                    one.measure(best, name, models[name], precision, threads)
        check_losses(best)
        sharing = list(sharing_rows(program, ours.path, models, make_row))
        others = [
            row
            for path in paths
            if path != ours.path
            for row in Ours(program, path).small_rows(models, make_row)
        ]
    rows = model_rows(best, ours.path, peaks, make_row)
    return [make_row("busy with other programs", sum(busy) / len(busy), "%", None, None), *rows, *sharing, *others, *kernels]


def measure(build_dir, make_row, rounds):
    """One round: there is nobody to take turns with, and the best of a few steps counts."""
    return measure_all(build_dir, make_row, 1, lambda models: [])


def measure_with_peers(build_dir, make_row, rounds):
    python = os.environ.get("TINKER_PEER_PYTHON") or ROOT / "build" / "venv" / "engine-peers" / "bin" / "python"
    rounds = 1 if IS_QUICK else rounds
    return measure_all(build_dir, make_row, rounds, lambda models: [Torch(python), LlamaCpp(python, models)])
