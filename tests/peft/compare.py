#!/usr/bin/env python3
"""Compares what the engine wrote with what peft and transformers make of it.

    build/dev/bin/export_check /tmp/export && python3 tests/peft/compare.py /tmp/export

Needs torch, transformers and peft. FOLDER is what tests/peft/export_check.cc wrote: for each model and adapter the logprobs that the
engine computed, the checkpoint, which is loaded by peft over the base model, and the merged export, which is loaded by transformers.
All in f32. Prints a table; fails if a correlation is not above 0.999 or a difference is above --tolerance.
"""

import argparse
import json
from pathlib import Path

import peft
import torch
import transformers

CORRELATION = 0.999


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def logprobs(model, texts):
    out = []
    with torch.no_grad():
        for text in texts:
            tokens = torch.tensor([text])
            scores = torch.log_softmax(model(tokens).logits[0, :-1], dim=-1)
            out.append(scores.gather(1, tokens[0, 1:, None])[:, 0])
    return torch.cat(out)


def compare(ours, theirs):
    ours = torch.tensor([value for row in ours for value in row])
    correlation = torch.corrcoef(torch.stack([ours, theirs]).double())[0, 1].item()
    return correlation, (ours - theirs).abs().max().item()


def rows_of(model_folder):
    """(adapter, what, logprobs compared, how far the adapter moves one, correlation, largest difference)"""
    for folder in sorted(path.parent for path in model_folder.glob("*/logprobs.json")):
        written = json.loads((folder / "logprobs.json").read_text())
        texts = written["tokens"]
        count = sum(len(text) - 1 for text in texts)
        moved = max(abs(a - b) for row in zip(written["base"], written["adapter"]) for a, b in zip(*row))
        base = load(model_folder / "base")
        yield folder.name, "base", count, 0.0, *compare(written["base"], logprobs(base, texts))
        adapted = peft.PeftModel.from_pretrained(base, folder / "checkpoint").eval()
        yield folder.name, "checkpoint, by peft", count, moved, *compare(written["adapter"], logprobs(adapted, texts))
        yield folder.name, "merged export", count, moved, *compare(written["adapter"], logprobs(load(folder / "merged"), texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest difference of a logprob (default %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    models = sorted({path.parent.parent for path in arguments.folder.glob("*/*/logprobs.json")})
    if not models:
        parser.error(f"{arguments.folder} has nothing that export_check wrote")

    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}\n")
    print("| model | adapter | what | logprobs | moved by | correlation | largest difference |\n|---|---|---|---|---|---|---|")
    failed = 0
    for model in models:
        for adapter, what, count, moved, correlation, difference in rows_of(model):
            row = [model.name, adapter, what, count, f"{moved:.2g}", f"{correlation:.9f}", f"{difference:.1e}"]
            print("|", *(f"{cell} |" for cell in row), flush=True)
            failed += not (correlation > CORRELATION and difference <= arguments.tolerance)
    if failed:
        raise SystemExit(f"{failed} of them differ")


if __name__ == "__main__":
    main()
