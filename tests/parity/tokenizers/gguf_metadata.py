"""What a GGUF file says of itself, read apart from our reader."""

import struct

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, file):
        self.file = file

    def number(self, form):
        (value,) = struct.unpack("<" + form, self.file.read(struct.calcsize("<" + form)))
        return value

    def string(self):
        return self.file.read(self.number("Q")).decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            item, count = self.number("I"), self.number("Q")
            return [self.value(item) for _ in range(count)]
        return self.number(NUMBERS[kind])


def metadata_of(path):
    with path.open("rb") as file:
        reader = Reader(file)
        magic, version, _, count = file.read(4), reader.number("I"), reader.number("Q"), reader.number("Q")
        assert magic == b"GGUF" and version in (2, 3), f"{path} is no GGUF file"
        return {reader.string(): reader.value(reader.number("I")) for _ in range(count)}
