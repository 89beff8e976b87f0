"""The work of tokenizer_bench.cc done by the Python libraries `tokenizers` and `tiktoken`.

    tokenizer_peer.py VOCABULARY TEXTS...   the measurement, with the library whose file VOCABULARY is
    tokenizer_peer.py train FOLDER TEXT     a vocabulary for both from TEXT: FOLDER/tokenizer.json, FOLDER.tiktoken

Each library is called in every way that it offers; the best counts.
"""

import array
import base64
import json
import os
import pathlib
import resource
import sys
import time
import zlib

os.environ["RAYON_NUM_THREADS"] = "2"  # where they are wanted: see `parallel`
os.environ["TIKTOKEN_CACHE_DIR"] = ""

import tiktoken
import tiktoken.load
import tokenizers
from tiktoken_ext import openai_public

# Work is repeated until one of them is reached.
MAX_REPETITIONS = 5
MAX_SECONDS = 1.0
TRAINED_TOKENS = 30_000


def parallel(is_wanted):
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if is_wanted else "false"


def o200k(path):
    """The arguments of `tiktoken.Encoding`, with the tokens of a file."""
    openai_public.load_tiktoken_bpe = lambda *_, **__: tiktoken.load.load_tiktoken_bpe(str(path))
    return openai_public.o200k_base()


class HuggingFace:
    name = f"tokenizers {tokenizers.__version__}"

    def __init__(self, path):
        self.tokenizer = tokenizers.Tokenizer.from_file(path)

    def encoders(self, texts):
        self.tokenizer.encode_special_tokens = True
        return {
            "each": lambda: [self.tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
            "batch": lambda: [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)],
        }

    def encoders_on_two(self, texts):
        return self.encoders(texts)

    def decoders(self, tokens):
        return {
            "each": lambda: [self.tokenizer.decode(ids, skip_special_tokens=False) for ids in tokens],
            "batch": lambda: self.tokenizer.decode_batch(tokens, skip_special_tokens=False),
        }


class Tiktoken:
    name = f"tiktoken {tiktoken.__version__}"

    def __init__(self, path):
        self.encoding = tiktoken.Encoding(**{**o200k(path), "special_tokens": {}, "explicit_n_vocab": None})

    def encoders(self, texts):
        return {
            "each": lambda: [self.encoding.encode_ordinary(text) for text in texts],
            "batch": lambda: self.encoding.encode_ordinary_batch(texts, num_threads=1),
        }

    def encoders_on_two(self, texts):
        return {"batch": lambda: self.encoding.encode_ordinary_batch(texts, num_threads=2)}

    def decoders(self, tokens):
        return {"each": lambda: [self.encoding.decode(ids) for ids in tokens]}


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_megabytes():
    """Of this program alone: what getrusage says begins with the memory of the parent."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024e-6


def measure(ways, repetitions=MAX_REPETITIONS):
    """What the best of some ways to the same result took, and the result."""
    seconds, cpu = [], []
    for work in ways.values():
        first = len(seconds)
        while len(seconds) - first < repetitions and sum(seconds[first:]) < MAX_SECONDS:
            start, cpu_start = time.perf_counter(), cpu_seconds()
            result = work()
            seconds.append(time.perf_counter() - start)
            cpu.append(cpu_seconds() - cpu_start)
    return {"seconds": min(seconds), "cpu": min(cpu)}, result


def bench_text(library, path):
    texts = path.read_bytes().decode().split("\0")
    parallel(False)
    out = {"checksum": 0}
    out["encode"], tokens = measure(library.encoders(texts))
    for ids in tokens:
        out["checksum"] = zlib.crc32(array.array("i", ids).tobytes(), out["checksum"])
    if len(texts) > 1:
        out["decode"], _ = measure(library.decoders(tokens))
        parallel(True)
        out["encode two"], _ = measure(library.encoders_on_two(texts))
    return out


def bench(vocabulary, texts):
    kind = Tiktoken if vocabulary.endswith(".tiktoken") else HuggingFace
    before = peak_megabytes()
    cost, library = measure({"load": lambda: kind(vocabulary)}, repetitions=1)
    megabytes = peak_megabytes() - before
    results = [bench_text(library, pathlib.Path(text)) for text in texts]
    return {"peer": kind.name, "load": cost, "megabytes": megabytes, "texts": results}


def train(folder, text):
    """Ranks are ids here: the tokens come in the order in which they were merged, after the bytes."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    pattern = tokenizers.Regex(o200k(os.devnull)["pat_str"])
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(pattern, "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=TRAINED_TOKENS, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(text.read_bytes().decode().split("\0"), trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))

    byte_of = {character: byte for byte, character in enumerate(byte_characters())}
    lines = []
    for token, rank in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        content = bytes(byte_of[character] for character in token)
        lines.append(f"{base64.b64encode(content).decode()} {rank}\n")
    folder.with_suffix(".tiktoken").write_text("".join(lines))


def byte_characters():
    """How GPT-2 writes the bytes."""
    others = iter(range(256, 512))
    is_printable = lambda byte: 0x21 <= byte <= 0x7E or (byte >= 0xA1 and byte != 0xAD)
    return [chr(byte if is_printable(byte) else next(others)) for byte in range(256)]


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    else:
        print(json.dumps(bench(sys.argv[1], sys.argv[2:])))
