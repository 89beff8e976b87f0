#!/usr/bin/env python3
"""Proves that no `co_await` has a call in it, but for `std::move`.

    tools/check_awaits.py              prints a line per violation; exit status 1 if there is any
    tools/check_awaits.py --self-test  shows that violations are caught

g++ 12 destroys the arguments of such a call twice. The compiler refuses it for futures (tests/compile_fail); `async::Task` is ours
alone and keeps its `co_await std::move(task)`, so here a script looks.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["include", "src", "examples", "benchmarks", "fuzz", "tests"]
EXEMPT = ROOT / "tests/compile_fail"  # the compiler refuses these programs
COMMENT = re.compile(r"//.*")
AWAITED = re.compile(r"co_await\s+(?!std::move\([\w.>*-]+\))[\w:.>*-]*[({]")


def violations(text: str) -> list[int]:
    code = COMMENT.sub("", text)
    return [code.count("\n", 0, found.start()) + 1 for found in AWAITED.finditer(code)]


def self_test() -> int:
    good = "co_await f; co_await std::move(f); co_await std::move(step.f);\n// co_await g()\nco_await a.b);"
    bad = ["co_await g();", "co_await\n  service.call({.name = n});", "co_await Wait{1};", "co_await std::move(f()).late();"]
    wrong = [text for text in bad if not violations(text)] + ([good] if violations(good) else [])
    print("\n".join(f"check_awaits: wrong about {text!r}" for text in wrong) or "check_awaits: catches what it should")
    return 1 if wrong else 0


def main() -> int:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc") and EXEMPT not in path.parents:
                found += [f"{path.relative_to(ROOT)}:{line}: name what is awaited first" for line in violations(path.read_text())]
    print("\n".join(found) or "check_awaits: every co_await has a name after it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv else main())
