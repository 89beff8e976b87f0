"""`./dev bench tokenizer`: our tokenizer and the Python libraries, on the same vocabularies and the same texts.

Vocabularies of real models are read from the folder that TINKER_TOKENIZERS names (default: build/tokenizers), as
NAME/tokenizer.json and NAME.tiktoken; those that are not there are skipped. One is trained on the spot. Text is what
this project has, code and prose, and the same few sentences in many languages, their words in random order.
"""

import json
import os
import pathlib
import random
import subprocess

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent

VOCABULARIES = {  # by their rows
    "Qwen3": "qwen3/tokenizer.json",
    "Llama 3.1": "llama3_1/tokenizer.json",
    "GPT-4o": "gpt4o/tokenizer.json",
    "DeepSeek V3": "deepseek_v3/tokenizer.json",
    "Gemma 3": "gemma3/tokenizer.json",
    "o200k": "o200k_base.tiktoken",
}
TRAINED = {"trained 30k": "trained/tokenizer.json", "trained 30k tiktoken": "trained.tiktoken"}
WORST_CASES_WITH = ("Qwen3", "trained 30k")  # the first that is there

OWN_TEXT = ("*.md", "docs/**/*.md", "include/**/*.h", "src/**/*.h", "src/**/*.cc", "tests/**/*.py")
LANGUAGE_DOCUMENTS = 200
MEGABYTE = 1_000_000


def documents():
    for pattern in OWN_TEXT:
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_text()
    shuffle = random.Random(1).shuffle
    languages = (HERE / "tokenizer_languages.txt").read_text().splitlines()
    for i in range(LANGUAGE_DOCUMENTS):
        words = languages[i % len(languages)].split(" ")
        words = words if len(words) > 8 else list(words[0])  # some write no spaces
        shuffle(words)
        yield (" " if len(words[0]) > 1 else "").join(words)


def worst_cases():
    letters = random.Random(2)
    for megabytes in (1, 2):
        size = megabytes * MEGABYTE
        yield f"{megabytes} MB word", "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=size))
        yield f"{megabytes} MB of spaces", " " * size
        yield f"{megabytes} MB of digits", "7" * size
        yield f"{megabytes} MB of quotes", "'" * size


def write_texts(folder):
    """{name: file}; documents have a null byte between them."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = list(documents())
    start = "\n".join(everything)
    texts = {"": "\0".join(everything), "100 kB document": start.encode()[:100_000].decode(errors="ignore")}
    texts.update(worst_cases())
    files = {name: folder / f"{name or 'all'}.txt" for name in texts}
    for name, file in files.items():
        file.write_bytes(texts[name].encode())
    return files


def run(*command):
    return json.loads(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout)


def best(a, b):
    """The smaller of all numbers; they have the same shape."""
    if isinstance(a, dict):
        return {key: best(a[key], b[key]) for key in a}
    if isinstance(a, list):
        return [best(x, y) for x, y in zip(a, b)]
    return a if isinstance(a, str) else min(a, b)


def measure_vocabulary(row, file, texts, program, python, make_row, rounds):
    ours = peer = None
    for _ in range(rounds):
        ours_now = run(program, file, *texts.values())
        peer_now = run(python, HERE / "tokenizer_peer.py", file, *texts.values())
        ours, peer = best(ours or ours_now, ours_now), best(peer or peer_now, peer_now)

    def compare(name, unit, value):
        return make_row(name, value(ours), unit, peer["peer"], value(peer))

    yield compare(f"load {row}", "ms", lambda run: run["load"]["seconds"] * 1e3)
    yield compare(f"load {row}, memory", "MB", lambda run: run["megabytes"])
    for i, (name, text) in enumerate(texts.items()):
        if ours["texts"][i]["checksum"] != peer["texts"][i]["checksum"]:
            raise RuntimeError(f"{row}: the tokens of {text} differ")
        megabytes = text.stat().st_size / MEGABYTE
        rate = lambda what, clock: lambda run: megabytes / run["texts"][i][what][clock]
        time = lambda run: run["texts"][i]["encode"]["seconds"] * 1e3
        if name:
            yield compare(f"encode {name}, {row}", "ms", time)
            continue
        yield compare(f"encode {row}, one thread, per CPU second", "MB/s", rate("encode", "cpu"))
        yield compare(f"encode {row}, one thread", "MB/s", rate("encode", "seconds"))
        yield compare(f"encode {row}, two threads", "MB/s", rate("encode two", "seconds"))
        yield compare(f"decode {row}, per CPU second", "MB/s", rate("decode", "cpu"))


def measure(build_dir, make_row, rounds):
    folder = pathlib.Path(os.environ.get("TINKER_TOKENIZERS", ROOT / "build" / "tokenizers"))
    made = build_dir / "tokenizer_bench"
    python = ROOT / "build" / "venv" / "tokenizers" / "bin" / "python"
    texts = write_texts(made)
    subprocess.run([python, HERE / "tokenizer_peer.py", "train", made / "trained", texts[""]], check=True)

    files = {row: made / name for row, name in TRAINED.items()}
    files.update({row: folder / name for row, name in VOCABULARIES.items()})
    for row in [row for row, file in files.items() if not file.exists()]:
        print(f"skipped: {row}, for there is no {files.pop(row)}")
    with_worst_cases = next(row for row in WORST_CASES_WITH if row in files)
    usual = {name: texts[name] for name in ("", "100 kB document")}
    rows = []
    for row, file in files.items():
        chosen = texts if row == with_worst_cases else usual
        rows += measure_vocabulary(row, file, chosen, build_dir / "bin" / "tokenizer_bench", python, make_row, rounds)
    return rows
