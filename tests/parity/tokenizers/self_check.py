"""The sweep itself: without a difference it finds none, and each planted difference it finds.

    self_check.py DRIVER    needs no vocabulary but the small one of the golden tests
"""

import contextlib
import io
import sys
from pathlib import Path

from driver import Driver
from references import HuggingFace
from sweep import compare

VOCABULARY = Path(__file__).resolve().parents[2] / "golden" / "tokenizer" / "llama3.json"
QUESTIONS = ["plain", "parsed", "around", "decoded", "skipped", "offsets"]


class Altered:
    """A reference with one answer to one question that is not what the library said."""

    def __init__(self, reference, question):
        self.reference = reference
        self.question = question

    def __getattr__(self, name):
        asked = getattr(self.reference, name)
        if name != self.question:
            return asked
        return lambda inputs: [changed(answer) if i == len(inputs) // 2 else answer for i, answer in enumerate(asked(inputs))]


def changed(answer):
    """The last token with another end, or one token or character more."""
    if answer and isinstance(answer[-1], tuple):
        token, begin, end = answer[-1]
        return [*answer[:-1], (token, begin, end + 1)]
    return answer + (answer[-1:] or ("?" if isinstance(answer, str) else [0]))


def differences(driver, reference):
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        found = compare(driver, reference, is_full=False).differences
    assert bool(shown.getvalue()) == bool(found), "what differs is shown, and nothing else"
    return found


def problems(program):
    driver, reference = Driver(program, VOCABULARY), HuggingFace.from_file(VOCABULARY)
    if differences(driver, reference):
        yield "differences where none was planted"
    for question in QUESTIONS:
        if not differences(driver, Altered(reference, question)):
            yield f"a planted difference in '{question}' was not noticed"
    driver.streamed = lambda lists: [changed(texts) for texts in Driver.streamed(driver, lists)]
    if not differences(driver, reference):
        yield "a planted difference in a stream was not noticed"


def main(program):
    found = list(problems(program))
    print("\n".join(found) or f"{len(QUESTIONS) + 1} planted differences noticed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
