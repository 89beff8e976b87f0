"""The renderers of the official cookbook with the tokenizers of their models, without PyTorch.

The tokenizers come out of the wheel tml-renderers; two are `tokenizers` on files that tools/fetch_tokenizers.sh writes.
"""

import functools
import importlib.util
import logging
import os
import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = Path(os.environ.get("TINKER_TOKENIZERS") or ROOT / "build" / "tokenizers") / "renderers"
sys.path[:0] = [str(HERE / "stand_in"), str(HERE.parent / "parity" / "tokenizers")]

import torch
from vocabularies import wheel_tokenizers

wheel = wheel_tokenizers()
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.simplefilter("ignore")

import tinker_cookbook
import tokenizers
from tinker_cookbook import renderers as official
from tinker_cookbook.renderers import base

logging.disable(logging.CRITICAL)

DATE = "2025-01-01"  # what gpt-oss is told
QWEN = ["qwen3", "qwen3_disable_thinking", "qwen3_instruct", "qwen3_vl", "qwen3_vl_instruct"]
DEEPSEEK_V4 = ["deepseekv4_1", "deepseekv4_1_low_reasoning", "deepseekv4_1_max_reasoning", "deepseekv4_1_disable_thinking"]
NEMOTRON = ["nemotron3", "nemotron3_low_thinking", "nemotron3_disable_thinking", "nemotron3_preserve_thinking"]
NEMOTRON_ULTRA = ["nemotron3_ultra", "nemotron3_ultra_disable_thinking", "nemotron3_ultra_medium_thinking", "nemotron3_ultra_preserve_thinking"]
GPT_OSS = ["gpt_oss_no_sysprompt", "gpt_oss_low_reasoning", "gpt_oss_medium_reasoning", "gpt_oss_high_reasoning"]
QWEN3_5 = ["qwen3_5", "qwen3_5_disable_thinking", "qwen3_5_preserve_thinking"]
QWEN3_8 = ["qwen3_8_xhigh_reasoning", "qwen3_8_medium_reasoning", "qwen3_8_low_reasoning", "qwen3_8_disable_thinking"]
# By model: the renderers that are tested with its tokenizer.
RENDERERS = {
    "Qwen/Qwen3-8B": ["role_colon", *QWEN],
    "meta-llama/Llama-3.1-8B-Instruct": ["role_colon", "llama3"],
    "Qwen/Qwen3.5-4B": [*QWEN3_5, *QWEN3_8],
    "deepseek-ai/DeepSeek-V3.1": ["deepseekv3", "deepseekv3_disable_thinking", "deepseekv3_thinking"],
    "deepseek-ai/DeepSeek-V4.1-Flash": [*DEEPSEEK_V4, "deepseekv4_1_preserve_thinking"],
    "zai-org/GLM-5.3": ["glm5_3_max_reasoning", "glm5_3_low_reasoning", "glm5_3_high_reasoning"],
    "moonshotai/Kimi-K2-Thinking": ["kimi_k2"],
    "moonshotai/Kimi-K2.5": ["kimi_k25", "kimi_k25_disable_thinking"],
    "moonshotai/Kimi-K2.6": ["kimi_k26", "kimi_k26_disable_thinking", "kimi_k26_preserve_thinking"],
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": [*NEMOTRON, *NEMOTRON_ULTRA],
    "openai/gpt-oss-20b": GPT_OSS,
    "thinkingmachines/Inkling": ["tml_v0"],
}
PAIRS = [(name, model) for model, names in RENDERERS.items() for name in names]


class FileTokenizer:
    """The library `tokenizers`, as transformers calls it."""

    def __init__(self, model, *, bos, eos):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(FOLDER / model / "tokenizer.json"))
        self.name_or_path = model
        self.bos_token = bos
        self.eos_token = eos
        self.eos_token_id = self.tokenizer.token_to_id(eos)

    def encode(self, text, add_special_tokens=True, split_special_tokens=False):
        self.tokenizer.encode_special_tokens = split_special_tokens
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids, skip_special_tokens=False):
        return self.tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def convert_tokens_to_ids(self, token):
        return self.tokenizer.token_to_id(token)


class WheelTokenizer:
    """One of the wheel, which finds no control tokens in text: they are found here."""

    def __init__(self, model, class_name, *, bos, eos):
        self.tokenizer = getattr(wheel, class_name)()
        self.name_or_path = model
        ids = {self.tokenizer.encode_special(name) for name in self.tokenizer.special_tokens()}
        self.special = {self.tokenizer.decode_bytes([token]).decode(): token for token in ids}
        self.cut = re.compile("(" + "|".join(map(re.escape, sorted(self.special, key=len, reverse=True))) + ")")
        self.bos_token = bos
        self.eos_token = eos
        self.eos_token_id = self.special[eos]

    def encode(self, text, add_special_tokens=True):
        parts = self.cut.split(text)
        return [token for part in parts for token in ([self.special[part]] if part in self.special else self.tokenizer.encode_ordinary(part))]

    def decode(self, ids):
        return self.tokenizer.decode(list(ids))

    def convert_tokens_to_ids(self, token):
        return self.special[token]


class InklingTokenizer:
    """Its renderer asks for the tokenizer of the wheel itself."""

    bos_token = eos_token = eos_token_id = None

    def __init__(self, model):
        self.tml_tokenizer = wheel.O200kBaseChatTokenizer()
        self.name_or_path = model

    def encode(self, text, add_special_tokens=False):
        return list(self.tml_tokenizer.encode_ordinary(text))

    def decode(self, ids):
        return self.tml_tokenizer.decode(list(ids))

    def encode_with_controls(self, text):
        parts = re.split(r"<\|([a-z_]+)\|>", text)
        return [token for i, part in enumerate(parts) for token in ([self.tml_tokenizer.encode_special(part)] if i % 2 else self.encode(part))]


DEEPSEEK_ENDS = {"bos": "<｜begin▁of▁sentence｜>", "eos": "<｜end▁of▁sentence｜>"}
KIMI_ENDS = {"bos": "[BOS]", "eos": "<|im_end|>"}
MAKERS = {
    "Qwen/Qwen3-8B": functools.partial(FileTokenizer, bos=None, eos="<|im_end|>"),
    "meta-llama/Llama-3.1-8B-Instruct": functools.partial(FileTokenizer, bos="<|begin_of_text|>", eos="<|eot_id|>"),
    "Qwen/Qwen3.5-4B": functools.partial(WheelTokenizer, class_name="Qwen35Tokenizer", bos=None, eos="<|im_end|>"),
    "deepseek-ai/DeepSeek-V3.1": functools.partial(WheelTokenizer, class_name="DeepSeekV31Tokenizer", **DEEPSEEK_ENDS),
    "deepseek-ai/DeepSeek-V4.1-Flash": functools.partial(WheelTokenizer, class_name="DeepSeekV41Tokenizer", **DEEPSEEK_ENDS),
    "zai-org/GLM-5.3": functools.partial(WheelTokenizer, class_name="GlmTokenizer", bos=None, eos="<|endoftext|>"),
    "moonshotai/Kimi-K2-Thinking": functools.partial(WheelTokenizer, class_name="KimiK2ThinkingTokenizer", **KIMI_ENDS),
    "moonshotai/Kimi-K2.5": functools.partial(WheelTokenizer, class_name="KimiK25Tokenizer", **KIMI_ENDS),
    "moonshotai/Kimi-K2.6": functools.partial(WheelTokenizer, class_name="KimiK26Tokenizer", **KIMI_ENDS),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": functools.partial(WheelTokenizer, class_name="Nemotron3Tokenizer", bos="<s>", eos="<|im_end|>"),
    "openai/gpt-oss-20b": functools.partial(WheelTokenizer, class_name="HarmonyTokenizer", bos="<|startoftext|>", eos="<|return|>"),
    "thinkingmachines/Inkling": InklingTokenizer,
}


@functools.cache
def tokenizer(model):
    return MAKERS[model](model)


def is_told_the_date(name):
    return name.startswith("gpt_oss") and name != "gpt_oss_no_sysprompt"


@functools.cache
def renderer(name, model):
    out = official.get_renderer(name, tokenizer(model), model_name=model)
    if is_told_the_date(name):
        out.current_date = DATE
    return out


def official_messages(messages):
    """Messages of JSON as the renderers take them."""
    types = {"tool_calls": base.ToolCall, "unparsed_tool_calls": base.UnparsedToolCall}
    return [
        {key: [types[key](**call) for call in value] if key in types else value for key, value in message.items()} for message in messages
    ]


def encode(text, model):
    """A response as a model writes it, control tokens and all."""
    own = tokenizer(model)
    return own.encode_with_controls(text) if isinstance(own, InklingTokenizer) else own.encode(text, add_special_tokens=False)


def tensor(values):
    return torch.tensor(values)


def _supervised_common():
    """A module of a package that needs PyTorch as a whole, alone."""
    path = Path(tinker_cookbook.__file__).parent / "supervised" / "common.py"
    spec = importlib.util.spec_from_file_location("supervised_common", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


datum_from_model_input_weights = _supervised_common().datum_from_model_input_weights
