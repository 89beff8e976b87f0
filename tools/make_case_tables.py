#!/usr/bin/env python3
"""Writes src/jinja/case_data.inc: upper, lower and title case as Python's strings have them.

    tools/make_case_tables.py > src/jinja/case_data.inc
"""

import unicodedata

POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def literal(text):
    return '"' + "".join(f"\\{byte:03o}" for byte in text.encode()) + '"'


def table(name, convert):
    print(f"constexpr CaseMapping {name}[] = {{")
    line = "   "
    for point in POINTS:
        converted = convert(chr(point))
        if converted == chr(point):
            continue
        row = f" {{{point:#x}, {literal(converted)}}},"
        if len(line) + len(row) > 160:
            print(line)
            line = "   "
        line += row
    print(line)
    print("};\n")


print(f"// Made by tools/make_case_tables.py from Unicode {unicodedata.unidata_version}.\n")
print("// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.")
table("kUpper", str.upper)
table("kLower", str.lower)
table("kTitle", str.title)
print("// NOLINTEND(modernize-use-designated-initializers)")
