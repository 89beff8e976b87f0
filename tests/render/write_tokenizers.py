"""Writes the tokenizers of the models whose renderers are tested.

    write_tokenizers.py WHEELS FOLDER    writes those that are not there
    write_tokenizers.py FOLDER           lists those that are not there

WHEELS is a folder in which the wheels tml-renderers and llama-models are unpacked. FOLDER/ORGANISATION/MODEL, a folder for each model, is
what Tokenizer::load takes. Nothing is needed but Python and g++.
"""

import concurrent.futures
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parity" / "tokenizers"))

from vocabularies import LLAMA3, WRITERS, Vocabulary, byte_level, read_ranks, wheel_tokenizers

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
# By the class of the wheel.
MODELS = {
    "Qwen/Qwen3-8B": "Qwen3Tokenizer",
    "Qwen/Qwen3.5-4B": "Qwen35Tokenizer",
    "deepseek-ai/DeepSeek-V3.1": "DeepSeekV31Tokenizer",
    "deepseek-ai/DeepSeek-V4.1-Flash": "DeepSeekV41Tokenizer",
    "moonshotai/Kimi-K2-Thinking": "KimiK2ThinkingTokenizer",
    "moonshotai/Kimi-K2.5": "KimiK25Tokenizer",
    "moonshotai/Kimi-K2.6": "KimiK26Tokenizer",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "Nemotron3Tokenizer",
    "openai/gpt-oss-20b": "HarmonyTokenizer",
    "thinkingmachines/Inkling": "O200kBaseChatTokenizer",
    "zai-org/GLM-5.3": "GlmTokenizer",
    LLAMA: None,
}


def llama_special(first):
    """The 256 control tokens behind the ranks; most are reserved."""
    named = {0: "begin_of_text", 1: "end_of_text", 4: "finetune_right_pad_id", 6: "start_header_id", 7: "end_header_id"}
    named |= {8: "eom_id", 9: "eot_id", 10: "python_tag"}
    reserved = iter(range(256))
    return {f"<|{named.get(i) or f'reserved_special_token_{next(reserved)}'}|>": first + i for i in range(256)}


def write_llama(folder, wheels):
    ranks = read_ranks(wheels / "llama_models" / "llama3" / "tokenizer.model")
    write = byte_level(LLAMA3, ignore_merges=True, begin="<|begin_of_text|>")
    vocabulary = Vocabulary(ranks, llama_special(len(ranks)))
    write(folder, vocabulary, vocabulary.splits())


def write_model(model, wheels, target):
    """Whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=target.parent))
    try:
        if model == LLAMA:
            write_llama(folder, wheels)
        else:
            name = MODELS[model]
            WRITERS[name](folder, Vocabulary.of_wheel(getattr(wheel_tokenizers(), name)()))
        folder.chmod(0o755)
        folder.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


def missing_in(folder):
    return [model for model in MODELS if not (folder / model).exists()]


def write(wheels, folder):
    sys.path.insert(0, str(wheels))
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(write_model, model, wheels, folder / model) for model in missing_in(folder)]:
            print(done.result(), flush=True)


if __name__ == "__main__":
    *wheels, folder = map(Path, sys.argv[1:])
    if wheels:
        write(wheels[0], folder)
    else:
        print("\n".join(missing_in(folder)), end="")
