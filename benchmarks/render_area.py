"""`./dev bench render`: our renderers and our Jinja beside the official Python, on the same 1,000 conversations.

Tokenizers are those of `./dev check render`, and so is the Python of the peers; models whose files are not there are skipped. Templates are
what tools/fetch_templates.sh fetched. Both sides must make the same number of tokens and of characters.
"""

import json
import os
import pathlib
import subprocess

from http_server_area import verdict

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
PYTHON = ROOT / "build" / "venv" / "render" / "bin" / "python"

RENDERERS = {  # by the models of their tokenizers
    "qwen3": "Qwen/Qwen3-8B",
    "llama3": "meta-llama/Llama-3.1-8B-Instruct",
    "qwen3_5": "Qwen/Qwen3.5-4B",
    "deepseekv3": "deepseek-ai/DeepSeek-V3.1",
    "kimi_k2": "moonshotai/Kimi-K2-Thinking",
    "gpt_oss_no_sysprompt": "openai/gpt-oss-20b",
}
TEMPLATES = ("qwen3", "qwen2_5", "llama3_1", "deepseek_v3")
RENDERER_GOAL = 30
JINJA_GOAL = 10


def run(*command):
    """{what: measurement}"""
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
    return {row["what"]: row for row in map(json.loads, output.splitlines())}


def best_of(runs):
    return {what: min((run[what] for run in runs), key=lambda row: row["seconds"]) for what in runs[0]}


def in_turns(ours, peer, rounds):
    """The best of each; both made the same."""
    runs = [(run(*ours), run(*peer)) for _ in range(rounds)]
    best, best_peer = best_of([own for own, _ in runs]), best_of([other for _, other in runs])
    for what, row in best.items():
        for unit in ("tokens", "characters"):
            if row.get(unit) != best_peer[what].get(unit):
                raise RuntimeError(f"{what}: {row.get(unit)} {unit}, the peer has {best_peer[what].get(unit)}")
    return best, best_peer


def rows_of(ours, peers, megabytes, goal, make_row):
    for what, row in ours.items():
        other = peers[what]
        library = other.get("tokenizer", "jinja2")
        made = make_row(f"1,000 conversations, {what}", row["seconds"] * 1e3, "ms", library, other["seconds"] * 1e3)
        # The cookbook takes its tokenizers from transformers; on others it is only told.
        if library != "tml-renderers":
            made["verdict"] = verdict(made["ratio"] >= goal, f"{goal}x")
        yield made
        if what.startswith("data"):
            yield make_row(f"{what}, lines", megabytes / row["seconds"], "MB/s", library, megabytes / other["seconds"])
        if "tokens" in row:
            million = row["tokens"] * 1e-6
            yield make_row(f"{what}, tokens", million / row["seconds"], "M/s", library, million / other["seconds"])


def measure(build_dir, make_row, rounds):
    if not PYTHON.exists():
        print(f"skipped: there is no {PYTHON}; ./dev check render makes it")
        return []
    program, peer = build_dir / "bin" / "render_bench", HERE / "render_peer.py"
    lines = build_dir / "render_bench.jsonl"
    subprocess.run([PYTHON, peer, "conversations", lines], check=True)
    megabytes = lines.stat().st_size * 1e-6
    tokenizers = pathlib.Path(os.environ.get("TINKER_TOKENIZERS") or ROOT / "build" / "tokenizers") / "renderers"
    rows = []
    for renderer, model in RENDERERS.items():
        folder = tokenizers / model
        if not folder.exists():
            print(f"skipped: {renderer}, for there is no {folder}")
            continue
        made = in_turns((program, "render", renderer, folder, lines), (PYTHON, "-B", peer, "render", renderer, model, lines), rounds)
        rows += rows_of(*made, megabytes, RENDERER_GOAL, make_row)
    for name in TEMPLATES:
        template = ROOT / "build" / "templates" / "models" / f"{name}.jinja"
        if not template.exists():
            print(f"skipped: {name}, for there is no {template}")
            continue
        made = in_turns((program, "jinja", template, lines), (PYTHON, "-B", peer, "jinja", template, lines), rounds)
        rows += rows_of(*made, megabytes, JINJA_GOAL, make_row)
    return rows
