#!/usr/bin/env python3
"""Checks that documentation says what is true: links lead somewhere, C++ in it is code that is compiled."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
CODE = re.compile(r"```cpp\n(.*?)```", re.DOTALL)


def pages():
    return [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def example_texts():
    """Whole examples, and the parts between two `//! [name]` lines."""
    for path in ROOT.glob("examples/*.cc"):
        text = path.read_text()
        yield text
        yield from re.findall(r"//! \[(?:\w+)\]\n(.*?)//! \[", text, re.DOTALL)


def problems():
    examples = set(example_texts())
    for page in pages():
        text = page.read_text()
        for target, _ in LINK.findall(CODE.sub("", text)):  # a lambda looks like a link
            if not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: link to {target}, which does not exist"
        for code in CODE.findall(text):
            if code not in examples:
                first = code.splitlines()[0]
                yield f"{page.relative_to(ROOT)}: C++ that is no example, from '{first}'"


def main():
    found = list(problems())
    print("\n".join(found) or f"{len(pages())} pages: links lead somewhere, C++ is compiled")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
