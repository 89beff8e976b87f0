"""Asks our tokenizer, in a process of its own."""

import struct
import subprocess


def packed(ids):
    return struct.pack(f"<{len(ids)}i", *ids)


def unpacked(answer):
    return list(struct.unpack(f"<{len(answer) // 4}i", answer))


def records(answer):
    at = 0
    while at < len(answer):
        (size,) = struct.unpack_from("<I", answer, at)
        yield answer[at + 4 : at + 4 + size]
        at += 4 + size


class Driver:
    def __init__(self, program, path):
        self.command = [program, path]

    def _ask(self, task, inputs):
        asked = b"".join(task + struct.pack("<I", len(data)) + data for data in inputs)
        done = subprocess.run(self.command, input=asked, stdout=subprocess.PIPE, check=True)
        answers = list(records(done.stdout))
        assert len(answers) == len(inputs), f"{len(answers)} answers to {len(inputs)} tasks"
        return answers

    def _encode(self, task, texts):
        return [unpacked(answer) for answer in self._ask(task, [text.encode() for text in texts])]

    def plain(self, texts):
        return self._encode(b"p", texts)

    def parsed(self, texts):
        return self._encode(b"s", texts)

    def around(self, texts):
        return self._encode(b"a", texts)

    def decoded(self, lists):
        return [answer.decode() for answer in self._ask(b"d", [packed(ids) for ids in lists])]

    def skipped(self, lists):
        return [answer.decode() for answer in self._ask(b"k", [packed(ids) for ids in lists])]

    def streamed(self, lists):
        """Of each list, the texts of all its beginnings."""
        return [[text.decode() for text in records(answer)] for answer in self._ask(b"f", [packed(ids) for ids in lists])]

    def offsets(self, texts):
        """(id, begin, end) of each token, in characters: of those that it has a byte of."""
        answers = self._encode(b"o", texts)
        return [list(in_characters(text, answer)) for text, answer in zip(texts, answers)]


def in_characters(text, triples):
    character_at = [index for index, character in enumerate(text) for _ in character.encode()]
    for i in range(0, len(triples), 3):
        token, begin, end = triples[i : i + 3]
        first = character_at[begin] if begin < len(character_at) else len(text)
        yield token, first, first if begin == end else character_at[end - 1] + 1
