#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_data.inc: what the tokenizers need to know of Unicode.

The regular expressions of the tokenizer libraries know Unicode 16; the normaliser of the Hugging Face library knows Unicode 9, so
what is younger neither composes nor moves there. Needs `pip install unicodedata2==16.0.0 regex` and perl, which knows the ages:

    tools/make_unicode_tables.py > src/tokenizer/unicode_data.inc
"""

import itertools
import subprocess

import regex
import unicodedata2

UNICODE = "16.0.0"
NORMALISER_AGE = "9.0"
CODE_POINTS = range(0x110000)


def present_in_normaliser():
    script = rf"for (0..0x10FFFF) {{ print qq($_\n) if !($_ >> 11 == 27) && chr =~ /\p{{Present_In: {NORMALISER_AGE}}}/ }}"
    return set(map(int, subprocess.run(["perl", "-e", script], check=True, stdout=subprocess.PIPE).stdout.split()))


def runs(value_of, points):
    """(first, last, value) of neighbours that share a value."""
    grouped = itertools.groupby(points, key=lambda point: (value_of(point)))
    for value, members in grouped:
        members = list(members)
        yield members[0], members[-1], value


def table(kind, name, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(row) + "},"
        if len(line) + len(text) > 100:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};\n")


def categories():
    return ((hex(first), f'"{category}"') for first, _, category in runs(lambda c: unicodedata2.category(chr(c)), CODE_POINTS))


def han():
    def is_han(point):
        return regex.match(r"\p{Han}", chr(point)) is not None and unicodedata2.category(chr(point)) != "Cn"

    members = runs(is_han, CODE_POINTS)
    return ((hex(first), hex(last)) for first, last, is_member in members if is_member)


def combining_classes(points):
    classes = runs(lambda c: unicodedata2.combining(chr(c)) if c in points else 0, CODE_POINTS)
    return ((hex(first), hex(last), str(value)) for first, last, value in classes if value)


def decompositions(points):
    for point in sorted(points):
        parts = unicodedata2.decomposition(chr(point)).split()
        if not parts or parts[0].startswith("<"):
            continue
        first, second = (parts + ["0"])[:2]
        composes = len(parts) == 2 and unicodedata2.normalize("NFC", chr(point)) == chr(point)
        yield hex(point), f"0x{first.lower()}", f"0x{second.lower()}" if second != "0" else "0", str(composes).lower()


def main():
    assert unicodedata2.unidata_version == UNICODE, unicodedata2.unidata_version
    points = present_in_normaliser()
    print(f"// Made by tools/make_unicode_tables.py from Unicode {UNICODE}; decompositions and combining classes")
    print(f"// of the characters of Unicode {NORMALISER_AGE}.\n")
    print("// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.")
    table("CategoryRun", "kCategoryRuns", categories())
    table("CodePointRange", "kHan", han())
    table("CombiningRun", "kCombiningRuns", combining_classes(points))
    table("Decomposition", "kDecompositions", decompositions(points))
    print("// NOLINTEND(modernize-use-designated-initializers)")


if __name__ == "__main__":
    main()
