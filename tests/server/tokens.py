"""A tokenizer for random models: a token per byte, tokens of two letters, and an end of text."""

import json

END_OF_TEXT = "<|endoftext|>"


def byte_characters():
    """The 256 characters that stand for bytes in byte-level vocabularies, in the order of the bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def write_tokenizer(folder, size):
    """A Hugging Face folder with a vocabulary of `size` tokens: bytes, pairs of letters, the end of text as the last."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = [a + b for a in letters for b in letters][: size - 257]
    vocabulary = {text: i for i, text in enumerate([*byte_characters(), *pairs])}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": size - 1, "content": END_OF_TEXT, "special": True}
    end |= {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [f"{pair[0]} {pair[1]}" for pair in pairs],
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT, "model_max_length": 100000}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
