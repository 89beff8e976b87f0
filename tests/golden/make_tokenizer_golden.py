#!/usr/bin/env python3
"""Writes tests/golden/tokenizer: small vocabularies of every kind, and what the real libraries make of texts with them.

NAME.json or NAME.tiktoken is the tokenizer; NAME.txt has a line for each text: its bytes in hexadecimal, its ids, its ids where special
tokens are parsed, its ids with special tokens around it (or "-"), and the text that these decode to. Needs `pip install tokenizers==0.23.3 tiktoken==0.14.0`.
"""

import base64
import json
import random
from pathlib import Path

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).resolve().parent / "tokenizer"
ROOT = HERE.parents[2]

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+"
    "|\\s+(?!\\S)|\\s+",
]
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
KIMI = "|".join(
    [
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)

PROSE = """The quick brown fox jumps over the lazy dog. It's what they'd said, and we'll see: I'M SURE YOU'RE right!
Größe, naïve café, señor; Привет, мир! Γειά σου Κόσμε. שלום עולם, مرحبا بالعالم, नमस्ते दुनिया, สวัสดีชาวโลก.
你好，世界。今天天气很好！こんにちは世界、カタカナ。안녕하세요 세계 👋🌍👨‍👩‍👧 1234567 3.14159 ٣٤٥ x² ½
"""


def training_text():
    code = "\n".join(path.read_text() for path in sorted((ROOT / "examples").glob("*.cc"))[:6])
    return [PROSE * 3, code]


def texts():
    rng = random.Random(1)
    pieces = ["the", " The", "it's", "IT'S", "'ſ", " ", "  ", "\n", "\r\n", "\t", "123", "4567", "é", "e\u0301", "ß", "你好", "カタカナ", "안녕"]
    pieces += ["\u1112\u1161\u11ab", "👨‍👩‍👧", "Привет", "<|end|>", "<|start|>", "<think>", "<s>", "</s>", "<0x41>", "▁", "_x", "://", "…", "\u00a0", "\u3000"]
    pieces += ["٣", "½", "ǅ", "ʰ", "\u0301", "\x00", "\ufeff", "\U0010ffff", "İ", "ﬁ", "++i;", "for (int"]
    yield ""
    yield from pieces
    yield PROSE
    yield from (" " * n + "x" for n in range(1, 6))
    yield "a" * 100
    for _ in range(120):
        yield "".join(rng.choice(pieces) for _ in range(rng.randint(2, 12)))


def byte_level(pattern_steps, *, normalizer=None, special, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    steps = [*pattern_steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern_steps)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    return tokenizer


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def sentence_piece(*, pre_tokenizer=None, normalizer=None, decoder=None):
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    training = Tokenizer(models.BPE(unk_token="<unk>"))
    training.normalizer = normalizers.Replace(" ", "▁")
    training.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    training.train_from_iterator(training_text(), trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=specials, limit_alphabet=120))
    made = json.loads(training.to_str())
    whole = json.loads(tokenizer.to_str())
    whole["model"]["vocab"], whole["model"]["merges"] = made["model"]["vocab"], made["model"]["merges"]
    whole["added_tokens"] = [token for token in made["added_tokens"] if token["id"] < 3]
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def hugging_face():
    yield "gpt2", byte_level([], special=["<|end|>"])
    qwen = byte_level([split(QWEN)], normalizer=normalizers.NFC(), special=["<|end|>", "<|start|>"])
    qwen.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    yield "qwen", qwen
    llama = byte_level([split(O200K, "removed", True)], special=["<|start|>", "<|end|>"], ignore_merges=True)
    llama.post_processor = processors.TemplateProcessing(single="<|start|> $A <|end|>", special_tokens=[("<|start|>", 0), ("<|end|>", 1)])
    yield "llama3", llama
    deepseek = byte_level([split(pattern) for pattern in DEEPSEEK], special=["<|end|>"])
    deepseek.add_tokens([AddedToken("<think>", normalized=True), AddedToken("<s>", lstrip=True, rstrip=True, normalized=False)])
    yield "deepseek", deepseek
    replace, fallback, fuse = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()
    spaced = normalizers.Replace(" ", "▁")
    yield "llama2", sentence_piece(
        normalizer=normalizers.Sequence([normalizers.Prepend("▁"), spaced]), decoder=decoders.Sequence([replace, fallback, fuse, decoders.Strip(" ", 1, 0)])
    )
    yield "gemma", sentence_piece(
        normalizer=spaced, pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"), decoder=decoders.Sequence([replace, fallback, fuse])
    )
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=True)
    yield "metaspace", sentence_piece(
        pre_tokenizer=pre_tokenizers.Sequence([metaspace, pre_tokenizers.Digits(individual_digits=True)]),
        decoder=decoders.Sequence([fallback, decoders.Metaspace(replacement="▁", prepend_scheme="first")]),
    )


def join(ids):
    return ",".join(map(str, ids)) or "."


def write_hugging_face(name, tokenizer):
    (HERE / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    lines = []
    for text in texts():
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        parsed = tokenizer.encode(text, add_special_tokens=False).ids
        around = tokenizer.encode(text).ids
        decoded = tokenizer.decode(around, skip_special_tokens=False)
        lines.append("\t".join([text.encode().hex() or ".", join(plain), join(parsed), join(around), decoded.encode().hex() or "."]))
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")


def write_tiktoken(name, pattern):
    vocabulary = json.loads((HERE / "gpt2.json").read_text())["model"]
    # Their ranks: the bytes first, then the merges in their order.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 1000))
    spelled = {chr(byte if byte in printable else next(others)): byte for byte in range(256)}
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [bytes(spelled[c] for c in "".join(pair)) for pair in vocabulary["merges"]]
    ranks = {token: rank for rank, token in enumerate(dict.fromkeys(tokens))}
    (HERE / f"{name}.tiktoken").write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))
    (HERE / f"{name}.pattern").write_text(pattern)
    special = {"<|end|>": len(ranks) + 1, "<|start|>": len(ranks)}
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    lines = []
    for text in texts():
        plain, parsed = encoding.encode_ordinary(text), encoding.encode(text, allowed_special="all")
        decoded = encoding.decode(parsed)
        lines.append("\t".join([text.encode().hex() or ".", join(plain), join(parsed), "-", decoded.encode().hex() or "."]))
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")


def main():
    for name, tokenizer in hugging_face():
        write_hugging_face(name, tokenizer)
    write_tiktoken("cl100k", CL100K)
    write_tiktoken("kimi", KIMI)


if __name__ == "__main__":
    main()
