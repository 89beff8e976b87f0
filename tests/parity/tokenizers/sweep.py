"""Compares our tokenizer with the library that a family is trained with.

    sweep.py DRIVER FAMILY    a name of families.py; 77 and a sentence when what it needs is not at hand

A quick subset; with TINKER_PARITY=full all texts. Any difference fails, and the first ones are printed.
"""

import os
import random
import sys
import tempfile
from pathlib import Path

import texts
from driver import Driver
from families import FAMILIES, Missing

SHOWN = 5
SKIPPED = 77


def first_difference(ours, theirs):
    """Where two sequences part."""
    return next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))


class Comparison:
    """Counts, and shows what differs."""

    def __init__(self):
        self.texts = self.bytes = self.differences = self.left_out = 0

    def only_what_counts(self, inputs, theirs, counts):
        kept = [(given, ids) for given, ids in zip(inputs, theirs) if counts(given, ids)]
        self.left_out = len(inputs) - len(kept)
        return [list(values) for values in zip(*kept)]

    def __str__(self):
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        return f"{self.texts} texts{left_out}, {self.bytes / 1e6:.1f} MB, {self.differences} mismatches"

    def check(self, what, inputs, ours, theirs):
        assert len(inputs) == len(ours) == len(theirs)
        for given, our, their in zip(inputs, ours, theirs):
            self.texts += 1
            self.bytes += len(given.encode()) if isinstance(given, str) else 4 * len(given)
            if our != their:
                self._show(what, given, our, their)

    def _show(self, what, given, ours, theirs):
        self.differences += 1
        if self.differences > SHOWN:
            return
        at = first_difference(ours, theirs)
        near = slice(max(0, at - 5), at + 10)
        print(f"{what}: differs at {at} for {repr(given)[:300]}\n  ours   {ours[near]!r}\n  theirs {theirs[near]!r}")


def sample(rng, values, count):
    values = list(values)
    return rng.sample(values, min(count, len(values)))


def random_ids(rng, ids, count):
    return [[rng.choice(ids) for _ in range(rng.randint(1, 12))] for _ in range(count)]


def unchanged(some, reference):
    """Texts that come back as they were: of others the library gives parts that are not where a token comes from."""
    return [text for text, back in zip(some, reference.decoded(reference.plain(some))) if text == back]


def without_added(ours, theirs):
    """A space that was put in front of the text is nothing of it; the library gives it the first character."""
    return [
        [(our[0], *their[1:]) if our[1:] == (0, 0) else our for our, their in zip(a, b)] + a[len(b) :] for a, b in zip(ours, theirs)
    ]


def compare(ours, reference, is_full):
    """Every question that the reference can be asked."""
    out, rng = Comparison(), random.Random(3)
    odd = list(texts.random_texts(is_full, reference.special_names))
    corpus = texts.corpus(is_full)
    everything = corpus + list(texts.code_points(is_full)) + odd
    everything, plain = out.only_what_counts(everything, reference.plain(everything), reference.counts)
    out.check("plain", everything, ours.plain(everything), plain)
    if reference.parsed:
        some = corpus[1:] + odd
        out.check("special tokens parsed", some, ours.parsed(some), reference.parsed(some))
    few = sample(rng, corpus[1:] + odd, 4_000 if is_full else 300)
    if reference.around:
        out.check("special tokens around", few, ours.around(few), reference.around(few))
    if reference.offsets:
        kept = unchanged(few, reference)
        theirs = reference.offsets(kept)
        out.check("offsets", kept, without_added(ours.offsets(kept), theirs), theirs)
    lists = sample(rng, plain, 4_000 if is_full else 200) + random_ids(rng, reference.ids, 8_000 if is_full else 400)
    out.check("decoded", lists, ours.decoded(lists), reference.decoded(lists))
    if reference.skipped:
        out.check("decoded without special tokens", lists, ours.skipped(lists), reference.skipped(lists))
    short = [ids[:60] for ids in sample(rng, lists, 1_000 if is_full else 50)]
    beginnings = [reference.decoded([ids[: i + 1] for i in range(len(ids))]) for ids in short]
    out.check("streamed up to each token", short, ours.streamed(short), beginnings)
    return out


def main(program, family):
    is_full = os.environ.get("TINKER_PARITY") == "full"
    with tempfile.TemporaryDirectory() as folder:
        try:
            path, reference = FAMILIES[family](family, Path(folder))
        except Missing as missing:
            print(f"skipped: {family}: {missing}")
            return SKIPPED
        done = compare(Driver(program, path), reference, is_full)
    print(f"{family}: {done}")
    return 1 if done.differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
