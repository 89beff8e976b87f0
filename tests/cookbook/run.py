"""Runs the official cookbook, unmodified, against the embedded server: run.py --tinker FILE [--dtype DTYPE] [--only NAME] [--keep FOLDER]

Every scenario is a recipe, started by its own command line in a process of its own, as a user does; what it has written to
metrics.jsonl is compared with what must come out. The model is a small random one that goes by the name of a hosted one. Recipes
look up tokenizers and data sets by name, and find folders of these names in the one they are started in (data.py).
"""

import argparse
import functools
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))

import data  # noqa: E402
import tinker  # noqa: E402
from served import Served  # noqa: E402
from tinker_cookbook.recipes.multiplayer_rl.guess_number.env import SYSTEM_PROMPT  # noqa: E402

MODEL = "Qwen/Qwen3.5-9B-Base"  # what most recipes name; its chats have no special tokens
SOURCE = "random:2x64,vocab=512"
DTYPES = ("f32", "bf16")
RECIPE_SECONDS = 300
TAIL_BYTES = 6000


class Failed(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Failed(text)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def series(rows, key):
    """The values of a metric, step by step."""
    missing = [row.get("step") for row in rows if key not in row]
    require(not missing, f"steps {missing} have no {key}")
    return [row[key] for row in rows]


def arrow(values):
    return f"{values[0]:.4g} -> {values[-1]:.4g}"


class Cookbook:
    """A server, and a folder to start recipes in, with tokenizers, data sets and the folders that recipes log to."""

    def __init__(self, server, folder):
        self.server = server
        self.folder = folder
        data.write_all(folder, SYSTEM_PROMPT)
        with tinker.ServiceClient(base_url=server.url, api_key="tml-local") as client:
            client.create_lora_training_client(MODEL, rank=1).get_tokenizer().save_pretrained(folder / MODEL)

    def run(self, recipe, log, **settings):
        """What the recipe logs, a dictionary for each step. `log` is the folder that it logs to."""
        program = ["-m", f"tinker_cookbook.recipes.{recipe}"] if not recipe.endswith(".py") else [str(HERE / recipe)]
        arguments = [f"{name}={value}" for name, value in {"model_name": MODEL, "log_path": log, **settings}.items()]
        command = [sys.executable, "-P", "-B", *program, *arguments]
        output = self.folder / f"{log}.{len(list(self.folder.glob(f'{log}.*')))}.out"
        with output.open("wb") as file:
            try:
                status = subprocess.run(
                    command, cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL, stdout=file,
                    stderr=subprocess.STDOUT, timeout=RECIPE_SECONDS,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                status = f"no end after {RECIPE_SECONDS} s"
        tail = output.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
        require(status == 0, f"{' '.join(command[3:])}: {status}\n{tail}")
        return rows_of(self.folder / log / "metrics.jsonl")

    def checkpoints(self, log):
        return rows_of(self.folder / log / "checkpoints.jsonl")

    def _environment(self):
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("TINKER_")},
            "TINKER_BASE_URL": self.server.url,
            "TINKER_API_KEY": "tml-local",
            "TINKER_TELEMETRY": "0",
            "HF_HOME": str(self.folder / "hub"),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "TQDM_DISABLE": "1",
            "OMP_NUM_THREADS": "1",
        }

    @functools.cached_property
    def trained(self):
        """The last checkpoint of the scenario sft: its model answers in the form that the others ask for."""
        self.run("chat_sl.train", "sft", **SFT)
        return self.checkpoints("sft")[-1]


SFT = {
    "dataset": "no_robots",
    "batch_size": 16,
    "learning_rate": 3e-3,
    "max_length": 256,
    "eval_every": 10,
    "save_every": 20,
    "rolling_save_every": 4,
}
RL = {"env": "arithmetic", "groups_per_batch": 4, "group_size": 8, "max_tokens": 16, "learning_rate": 1e-3, "eval_every": 0}


# ---- scenarios: each yields the figures that it has compared ----


def sft(cookbook):
    """The pipelined loop: the NLL falls, of what it trains on and of what it has not seen."""
    last = cookbook.trained
    rows = rows_of(cookbook.folder / "sft/metrics.jsonl")
    nll = series(rows, "train_mean_nll")
    held_out = [row["test/nll"] for row in rows if "test/nll" in row]
    require(nll[-1] < nll[0] / 2 and held_out[-1] < held_out[0] / 2, f"NLL {nll}, held out {held_out}")
    require(last["name"] == "final" and len(rows) == 40, f"{len(rows)} steps, and then {last}")
    return f"NLL {arrow(nll)}, held out {arrow(held_out)}"


def sft_loop(cookbook):
    """The loop without a pipeline, and going on from a checkpoint that it has left half way: the same bits."""
    settings = {"batch_size": 16, "learning_rate": 3e-3, "max_length": 256, "max_steps": 12, "save_every": 6}
    straight = series(cookbook.run("sl_loop", "loop", **settings), "train_mean_nll")
    half = [record for record in cookbook.checkpoints("loop") if record["batch"] == 6]
    require(len(half) == 1, f"{cookbook.checkpoints('loop')} has no checkpoint of batch 6")
    data.write_rows(cookbook.folder / "loop_again/checkpoints.jsonl", half)
    cookbook.server.stop()
    cookbook.server.start()
    resumed = series(cookbook.run("sl_loop", "loop_again", **settings), "train_mean_nll")
    require(resumed == straight[6:], f"the NLL is {resumed} after resuming, {straight[6:]} without")
    return f"NLL {arrow(straight)}; 6 steps after a restart of the server have the same bits"


def is_on_policy(rows):
    """The sampler and the trainer agree in every bit about every sampled token."""
    for key in ("optim/kl_sample_train_v1", "optim/kl_sample_train_v2"):
        require(all(value == 0 for value in series(rows, key)), f"{key} is {series(rows, key)}; expected 0 in each step")


def learns(rows, key, *, falls=False):
    """The mean of the last quarter of the steps is better than that of the first."""
    values = series(rows, key)
    quarter = max(1, len(values) // 4)
    first, last = statistics.fmean(values[:quarter]), statistics.fmean(values[-quarter:])
    require(last < first if falls else last > first, f"{key} should {'fall' if falls else 'rise'}: {values}")
    return f"{first:.3g} -> {last:.3g}"


def rl_sync(cookbook):
    """Sampling and training take turns: the KL is 0 in each step, and the reward rises."""
    rows = cookbook.run(
        "math_rl.train", "rl_sync", load_checkpoint_path=cookbook.trained["state_path"], compute_post_kl=True, max_steps=12, **RL
    )
    is_on_policy(rows)
    require(all(value > 0 for value in series(rows, "kl_pre_post_v2")), "some step has not changed the policy")
    return f"KL 0 in {len(rows)} steps, reward {learns(rows, 'env/all/reward/total')}"


def rl_async(cookbook):
    """Sampling goes on while the model is trained: samples may be two steps old, and the KL is 0 where all are new."""
    rows = cookbook.run(
        "math_rl.train", "rl_async", load_checkpoint_path=cookbook.trained["state_path"], max_steps_off_policy=2, max_steps=12, **RL
    )
    ages = [row["training_client/step"] - row["sampling_client/step_min"] for row in rows]
    # What is too old at the end, when no new samples are made, is not trained on: there are fewer steps then.
    require(len(rows) >= 6 and max(ages) in (1, 2), f"{len(rows)} steps; their oldest samples are {ages} steps old")
    is_on_policy([row for row, age in zip(rows, ages, strict=True) if age == 0])
    old = series([row for row, age in zip(rows, ages, strict=True) if age], "optim/kl_sample_train_v2")
    require(any(old), "samples of older weights have the logprobs of the newest")
    return f"samples {ages} steps old, KL 0 in those that are new, {max(old):.2g} at most in others"


def rl_streaming(cookbook):
    """Parts of a batch are trained on as soon as they are sampled, and a step is taken when all are there."""
    streaming = {"stream_minibatch_config.num_minibatches": 2, "stream_minibatch_config.groups_per_batch": 4}
    rows = cookbook.run(
        "math_rl.train", "rl_streaming", load_checkpoint_path=cookbook.trained["state_path"], max_steps=6, **RL, **streaming
    )
    is_on_policy(rows)
    require(len(rows) == 6, f"{len(rows)} steps")
    return f"KL 0 in {len(rows)} steps of 2 parts, reward {arrow(series(rows, 'env/all/reward/total'))}"


def rl_resume(cookbook):
    """A run that ended after two steps goes on, with the optimizer's state, at the third."""
    settings = {**RL, "load_checkpoint_path": cookbook.trained["state_path"]}
    cookbook.run("math_rl.train", "rl_resume", max_steps=2, **settings)
    rows = cookbook.run("math_rl.train", "rl_resume", max_steps=4, behavior_if_log_dir_exists="resume", **settings)
    steps = series(rows, "step")
    require(steps == [0, 1, 2, 3], f"the steps are {steps}")
    is_on_policy(rows)
    return f"KL 0 in steps {steps}, the last two after resuming"


def rl_loop(cookbook):
    """The loop without classes: a group of samples in one request, questions in words."""
    rows = cookbook.run("rl_loop", "rl_loop", batch_size=8, group_size=8, max_tokens=16, max_steps=3)
    require(len(rows) == 3 and cookbook.checkpoints("rl_loop")[-1]["name"] == "final", f"{len(rows)} steps")
    return f"{len(rows)} steps"


def dpo(cookbook):
    """The first loss is ln 2 and the first margin 0, because the model is its own reference; then answers are told apart."""
    rows = cookbook.run("preference.dpo.train", "dpo", dataset="hhh", batch_size=16, max_length=256, learning_rate=1e-3)
    loss, margin = series(rows, "dpo_loss"), series(rows, "margin")
    require(abs(loss[0] - math.log(2)) < 1e-7 and margin[0] == 0, f"the first loss is {loss[0]}, the first margin {margin[0]}")
    require(loss[-1] < 0.5 and rows[-1]["accuracy"] == 1, f"loss {loss}, accuracy {series(rows, 'accuracy')}")
    return f"loss {loss[0]:.9f} -> {loss[-1]:.4f}, margin {arrow(margin)}"


def distillation(cookbook):
    """The teacher scores what the student samples: the KL between them falls."""
    rows = cookbook.run(
        "distillation.on_policy_distillation", "distillation", teacher_model=MODEL, teacher_checkpoint=cookbook.trained["sampler_path"],
        dataset="deepmath", groups_per_batch=16, group_size=4, max_tokens=16, learning_rate=3e-3, lora_rank=32, max_steps=12,
    )  # fmt: skip
    is_on_policy(rows)
    kl = series(rows, "teacher_kl")
    require(kl[-1] < kl[0] / 2, f"the KL to the teacher is {kl}")
    return f"KL to the teacher {arrow(kl)}, to the sampler 0 in {len(rows)} steps"


def multi_turn(cookbook):
    """A game of up to ten turns, each of which is sampled after what the others have said."""
    settings = {"dataset": "guesses.jsonl", "batch_size": 16, "learning_rate": 5e-3, "max_length": 1024, "num_epochs": 3}
    cookbook.run("chat_sl.train", "guesses", **settings)
    rows = cookbook.run(
        "guess_number.py", "multi_turn", load_checkpoint_path=cookbook.checkpoints("guesses")[-1]["state_path"],
        renderer_name="role_colon", batch_size=2, group_size=8, max_tokens=16, learning_rate=1e-3, eval_every=0, max_steps=3,
    )  # fmt: skip
    is_on_policy(rows)
    turns = series(rows, "env/all/turns_per_episode")
    require(min(turns) > 1 and any(series(rows, "unclipped_grad_l2:mean")), f"{turns} turns per episode, or no gradient")
    return f"KL 0 in {len(rows)} steps of {statistics.fmean(turns):.1f} turns, reward {arrow(series(rows, 'env/all/reward/total'))}"


SCENARIOS = (sft, sft_loop, rl_sync, rl_async, rl_streaming, rl_resume, rl_loop, dpo, distillation, multi_turn)


def run_all(arguments, dtype, folder):
    """A line of the table for each scenario."""
    table = []
    with Served(arguments.tinker, "--dtype", dtype, "--model", f"{MODEL}={SOURCE}") as server:
        cookbook = Cookbook(server, folder)
        for scenario in SCENARIOS:
            if arguments.only and scenario.__name__ not in arguments.only:
                continue
            start = time.monotonic()
            try:
                text, is_good = scenario(cookbook), True
            except Failed as failure:
                text, is_good = str(failure), False
            except Exception:
                text, is_good = traceback.format_exc(), False
            table.append(is_good)
            result = "pass" if is_good else "FAIL"
            print(f"{scenario.__name__:14} {dtype:4} {result} {time.monotonic() - start:4.0f} s  {text}", flush=True)
        if not all(table):
            server.show_log()
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tinker", type=pathlib.Path, required=True, help="the command to test")
    parser.add_argument("--dtype", choices=DTYPES, help="one of the two number formats; both unless given")
    parser.add_argument("--only", action="append", choices=[scenario.__name__ for scenario in SCENARIOS])
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for what the recipes leave behind")
    arguments = parser.parse_args()
    if not arguments.tinker.is_file():
        sys.exit(f"{arguments.tinker} is not there: ./dev test builds it")
    results = []
    for dtype in [arguments.dtype] if arguments.dtype else DTYPES:
        with tempfile.TemporaryDirectory(prefix="tinker-cookbook-") as scratch:
            folder = (arguments.keep or pathlib.Path(scratch)).resolve() / dtype
            shutil.rmtree(folder, ignore_errors=True)
            results += run_all(arguments, dtype, folder)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
