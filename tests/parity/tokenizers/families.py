"""The families of the sweep: where the vocabulary of each is, and which library has the last word on it.

Vocabularies are in the folder TINKER_TOKENIZERS (default build/tokenizers), which tools/fetch_tokenizers.sh fills: NAME/tokenizer.json,
NAME.tiktoken, NAME/*.gguf. Those of the renderers come with them, and are written to files as their models have them.
"""

import os
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from gguf_metadata import metadata_of
from references import HuggingFace, Kimi, Renderers, Tiktoken
from vocabularies import WRITERS, Missing, wheel_tokenizers

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("TINKER_TOKENIZERS") or ROOT / "build" / "tokenizers")

# Tulu-Tigalari, Gurung Khema, Kirat Rai: newer than the tables of `tokenizers`, which the renderers compose.
COMPOSED_SINCE_UNICODE_16 = frozenset(map(chr, [*range(0x11380, 0x11400), *range(0x16100, 0x16140), *range(0x16D40, 0x16D80)]))


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


def wheel(class_name):
    """As the models of this family write it; only the tokens are read out of the renderers."""

    def make(_, folder):
        reference = Renderers(getattr(wheel_tokenizers(), class_name)())
        WRITERS[class_name](folder, reference.vocabulary)
        [path] = folder.iterdir()
        if path.suffix == ".json":
            # Their encoder goes by tokens that may stand side by side, not by merges, and makes use of these all the same.
            reference.odd_ids = {rank for rank, merge in reference.vocabulary.merges.items() if not merge}
            reference.odd_characters = COMPOSED_SINCE_UNICODE_16 if class_name.startswith("Qwen") else frozenset()
        return path, reference

    return make


def kimi(class_name):
    def make(_, folder):
        pattern = (ROOT / "tests" / "golden" / "tokenizer" / "kimi.pattern").read_text()
        reference = Kimi(getattr(wheel_tokenizers(), class_name)(), pattern)
        WRITERS[class_name](folder, reference.vocabulary)
        return folder, reference

    return make


FAMILIES = {
    **dict.fromkeys(
        ["qwen3", "qwen2_5", "llama3", "llama3_1", "llama3_2", "deepseek_v3", "gpt2", "gpt4o", "mistral_nemo", "llama2", "gemma3"], hugging_face
    ),
    **dict.fromkeys(["r50k_base", "p50k_base", "cl100k_base", "o200k_base"], openai),
    "o200k_harmony": harmony,
    "smollm2": smollm2,
    "gpt_oss": wheel("HarmonyTokenizer"),
    "kimi_k2": kimi("KimiK2InstructTokenizer"),
    "kimi_k2_thinking": kimi("KimiK2ThinkingTokenizer"),
    "kimi_k2_5": kimi("KimiK25Tokenizer"),
    "kimi_k2_6": kimi("KimiK26Tokenizer"),
    "deepseek_v3_1": wheel("DeepSeekV31Tokenizer"),
    "deepseek_v4_1": wheel("DeepSeekV41Tokenizer"),
    "qwen3_5": wheel("Qwen35Tokenizer"),
    "glm": wheel("GlmTokenizer"),
    "nemotron_3": wheel("Nemotron3Tokenizer"),
    "inkling": wheel("O200kBaseChatTokenizer"),
}
