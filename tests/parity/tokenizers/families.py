"""The families of the sweep: where the vocabulary of each is, and which library has the last word on it.

Vocabularies are in the folder TINKER_TOKENIZERS (default build/tokenizers), which tools/fetch_tokenizers.sh fills: NAME/tokenizer.json,
NAME.tiktoken, NAME/*.gguf. Those of the renderers come with them, and are written to files as their models have them.
"""

import base64
import ctypes
import json
import os
import sys
import types
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from gguf_metadata import metadata_of
from references import HuggingFace, Kimi, Renderers, Tiktoken

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("TINKER_TOKENIZERS") or ROOT / "build" / "tokenizers")

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GLM = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|" + SPACES

# Tulu-Tigalari, Gurung Khema, Kirat Rai: newer than the tables of `tokenizers`, which the renderers compose.
COMPOSED_SINCE_UNICODE_16 = frozenset(map(chr, [*range(0x11380, 0x11400), *range(0x16100, 0x16140), *range(0x16D40, 0x16D80)]))


class Missing(Exception):
    """A file that is not at hand."""


def existing(path):
    if not path.exists():
        raise Missing(f"no {path}; tools/fetch_tokenizers.sh fetches what can be had")
    return path


# Each of these gives the path for our tokenizer, and the reference.


def hugging_face(name, _):
    path = existing(FOLDER / name / "tokenizer.json")
    return path, HuggingFace.from_file(path)


def openai(name, _):
    path = existing(FOLDER / f"{name}.tiktoken")
    return path, Tiktoken.from_file(path, name)


def harmony(name, folder):
    """The ranks of o200k_base under the name of the preset."""
    path = folder / f"{name}.tiktoken"
    path.symlink_to(existing(FOLDER / "o200k_base.tiktoken").resolve())
    return path, Tiktoken.from_file(path, name)


def smollm2(name, _):
    """The only one that `tokenizers` is told piece by piece, as the authors' tokenizer.json does."""
    path = existing(next((FOLDER / name).glob("*.gguf"), FOLDER / name / "*.gguf"))
    metadata = metadata_of(path)
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    digits, byte_level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, metadata["tokenizer.ggml.token_type"]) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    reference = HuggingFace(tokenizer)
    reference.around = None  # the file has its own flags for that
    return path, reference


def renderer(class_name):
    """Imports the renderers without libtorch, which their tokenizers do not need."""
    library = os.environ.get("TINKER_TORCH_STAND_IN")
    if "torch" not in sys.modules:
        if not library:
            raise Missing("no stand-in for libtorch; the build makes it")
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        sys.modules["torch"] = types.ModuleType("torch")
    from tml_renderers import tokenizers

    return getattr(tokenizers, class_name)()


def write_ranks(path, ranks):
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))


def gpt_oss(class_name):
    def make(_, folder):
        reference = Renderers(renderer(class_name))
        path = folder / "o200k_harmony.tiktoken"
        write_ranks(path, reference.ranks)
        return path, reference

    return make


def kimi(class_name):
    def make(_, folder):
        pattern = (ROOT / "tests" / "golden" / "tokenizer" / "kimi.pattern").read_text()
        reference = Kimi(renderer(class_name), pattern)
        write_ranks(folder / "tiktoken.model", reference.ranks)
        named = {token: {"content": name, "special": True} for name, token in reference.special.items() if "reserved" not in name}
        auto_map = {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}
        (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto_map, "added_tokens_decoder": named}))
        return folder, reference

    return make


def spelled(token):
    return "".join(BYTE_ALPHABET[byte] for byte in token)


def byte_alphabet():
    """How byte-level vocabularies write bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


BYTE_ALPHABET = byte_alphabet()


def merge_of(ranks, token):
    """The two parts that `token` is merged from; None where no merges of smaller rank lead to it."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        rank, i = min((ranks.get(parts[i] + parts[i + 1], ranks[token]), i) for i in range(len(parts) - 1))
        if rank >= ranks[token]:
            return None
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def tokenizer_json(class_name, pattern, *, normalizer=None, ignore_merges=False):
    """As the models of this family write it; only the ranks are read out of the renderers."""

    def make(_, folder):
        reference = Renderers(renderer(class_name))
        ranked = sorted(reference.ranks.items(), key=lambda item: item[1])
        merges = {rank: merge_of(reference.ranks, token) for token, rank in ranked if len(token) > 1}
        # Their encoder goes by tokens that may stand side by side, not by merges, and makes use of these all the same.
        reference.odd_ids = {rank for rank, merge in merges.items() if not merge}
        reference.odd_characters = COMPOSED_SINCE_UNICODE_16 if normalizer else frozenset()
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        whole = {
            "added_tokens": [{"id": token, "content": name, "special": True, "normalized": False} for name, token in reference.special.items()],
            "normalizer": normalizer,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "ignore_merges": ignore_merges,
                "vocab": {spelled(token): rank for token, rank in ranked},
                "merges": [[spelled(part) for part in merge] for merge in merges.values() if merge],
            },
        }
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(whole))
        return path, reference

    return make


FAMILIES = {
    **dict.fromkeys(
        ["qwen3", "qwen2_5", "llama3", "llama3_1", "llama3_2", "deepseek_v3", "gpt2", "gpt4o", "mistral_nemo", "llama2", "gemma3"], hugging_face
    ),
    **dict.fromkeys(["r50k_base", "p50k_base", "cl100k_base", "o200k_base"], openai),
    "o200k_harmony": harmony,
    "smollm2": smollm2,
    "gpt_oss": gpt_oss("HarmonyTokenizer"),
    "kimi_k2": kimi("KimiK2InstructTokenizer"),
    "kimi_k2_5": kimi("KimiK25Tokenizer"),
    "kimi_k2_6": kimi("KimiK26Tokenizer"),
    "qwen3_5": tokenizer_json("Qwen35Tokenizer", QWEN35, normalizer={"type": "NFC"}),
    "glm": tokenizer_json("GlmTokenizer", GLM, ignore_merges=True),
    "nemotron_3": tokenizer_json("Nemotron3Tokenizer", TEKKEN),
}
