"""Proves that the parity test notices mistakes: damages the tool's answers and expects a failure.

    python self_check.py --tinker build/bin/tinker [--count 40] [--seed 1]

Each damage is small and of a kind a codec could really make. It is done to one answer of a type; a run
over that type must then find more failures than without it. Exit status 1 when a damage goes unnoticed.
Run it with the newest official release; older ones lack some of the types.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import catalogue
from json_checks import error_text
from tool import Tool
from wire_parity import Parity

Damage = Callable[[str, random.Random], str | None]

REQUESTS = ["sample_request", "create_model_request", "telemetry_send_request",
            "session_search_request", "optim_step_request", "load_weights_request", "adam_params",
            "create_custom_loss_request"]  # fmt: skip
RESPONSES = ["billing_usage_response", "training_runs_response", "session_search_response",
             "get_info_response", "client_config_response", "futures_retrieve_response"]  # fmt: skip
PROTOS = ["forward_backward_request", "datum", "sample_response", "forward_backward_output"]


def _objects(made: Any) -> list[dict]:
    """Every object of a document."""
    if isinstance(made, dict):
        return [made] + [inner for item in made.values() for inner in _objects(item)]
    if isinstance(made, list):
        return [inner for item in made for inner in _objects(item)]
    return []


def _document(answer: str) -> Any:
    made = json.loads(answer) if answer.startswith("{") else None
    return None if error_text(answer) is not None else made


def _written(made: Any) -> str:
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def drop_member(answer: str, rng: random.Random) -> str | None:
    made = _document(answer)
    names = [name for name, value in (made or {}).items() if value is not None]
    if not names:
        return None
    del made[rng.choice(names)]
    return _written(made)


def null_member(answer: str, rng: random.Random) -> str | None:
    made = _document(answer)
    return None if made is None else _written(made | {"seq_id": None, "display_name": None})


def unknown_member(answer: str, rng: random.Random) -> str | None:
    made = _document(answer)
    return None if made is None else _written(made | {"zz_mine": 1})


def float_as_integer(answer: str, rng: random.Random) -> str | None:
    if _document(answer) is None:
        return None
    damaged = re.sub(r"([:\[,]-?\d{1,9})\.0(?=[,}\]])", r"\1", answer, count=1)
    return damaged if damaged != answer else None


def one_ulp(answer: str, rng: random.Random) -> str | None:
    """The last digit of a long float."""
    if _document(answer) is None:
        return None
    found = re.search(r"([:\[]-?\d\.\d{14,})(\d)(?=[,}\]e])", answer)
    if found is None:
        return None
    digit = str((int(found[2]) + 5) % 10)
    return answer[: found.start(2)] + digit + answer[found.end(2) :]


def lost_sign(answer: str, rng: random.Random) -> str | None:
    return answer.replace(":-0.0", ":0.0", 1) if _document(answer) and ":-0.0" in answer else None


def off_by_one(answer: str, rng: random.Random) -> str | None:
    if _document(answer) is None:
        return None
    found = re.search(r"[:\[,](\d{4,17})(?=[,}\]])", answer)
    if found is None:
        return None
    return answer[: found.start(1)] + str(int(found[1]) + 1) + answer[found.end(1) :]


def rounded_integer(answer: str, rng: random.Random) -> str | None:
    """An integer that went through a double."""
    return _replaced(answer, "9223372036854775807", "9223372036854775806")


def _replaced(answer: str, old: str, new: str) -> str | None:
    if _document(answer) is None or old not in answer:
        return None
    return answer.replace(old, new, 1)


def lost_offset(answer: str, rng: random.Random) -> str | None:
    """The same moment in UTC is not what was written."""
    if _document(answer) is None:
        return None
    damaged = re.sub(r'(T\d\d:\d\d:\d\d[.\d]*)[+-](?!00:00)\d\d:\d\d"', r'\1Z"', answer, count=1)
    return damaged if damaged != answer else None


def lost_fraction(answer: str, rng: random.Random) -> str | None:
    if _document(answer) is None:
        return None
    damaged = re.sub(r'(T\d\d:\d\d:\d\d)\.\d*[1-9]\d{2,}', r"\1", answer, count=1)
    return damaged if damaged != answer else None


def lost_character(answer: str, rng: random.Random) -> str | None:
    for old in ("日", "👩", "\\u0001", "é"):
        if (damaged := _replaced(answer, old, "")) is not None:
            return damaged
    return None


def lost_null(answer: str, rng: random.Random) -> str | None:
    """Nulls inside free-form values are data."""
    made = _document(answer)
    for owner in _objects(made):
        for name in ("user_metadata", "event_data", "kwargs"):
            inner = owner.get(name)
            if isinstance(inner, dict) and None in inner.values():
                owner[name] = {key: value for key, value in inner.items() if value is not None}
                return _written(made)
    return None


def swapped_tag(answer: str, rng: random.Random) -> str | None:
    for old, new in (("cancelled", "active"), ("finished", "failed"), ("own", "accessible"), ("jpeg", "png")):
        if (damaged := _replaced(answer, f'"{old}"', f'"{new}"')) is not None:
            return damaged
    return None


def shorter_list(answer: str, rng: random.Random) -> str | None:
    made = _document(answer)
    for owner in _objects(made):
        for name, value in owner.items():
            if isinstance(value, list) and len(value) > 1:
                owner[name] = value[:-1]
                return _written(made)
    return None


def refuse(answer: str, rng: random.Random) -> str | None:
    return None if error_text(answer) is not None else '{"error":"$: something else"}'


def accept(answer: str, rng: random.Random) -> str | None:
    return "{}" if error_text(answer) is not None else None


def accept_message(answer: str, rng: random.Random) -> str | None:
    return "" if error_text(answer) is not None else None


def wrong_path(answer: str, rng: random.Random) -> str | None:
    error = error_text(answer)
    if error is None or error.startswith("$"):
        return None
    return _written({"error": "elsewhere." + error})


def no_path(answer: str, rng: random.Random) -> str | None:
    error = error_text(answer)
    return None if error is None else _written({"error": error.partition(": ")[2] or "bad"})


def _payload(answer: str) -> bytearray | None:
    if error_text(answer) is not None or not answer:
        return None
    return bytearray(base64.b64decode(answer))


def flipped_bit(answer: str, rng: random.Random) -> str | None:
    """The lowest bit of one of the last bytes of a message."""
    raw = _payload(answer)
    if raw is None or len(raw) < 60:
        return None
    raw[-rng.randrange(2, 8)] ^= 1
    return base64.b64encode(raw).decode()


def lost_field(answer: str, rng: random.Random) -> str | None:
    from protobuf_cases import top_level_fields

    raw = _payload(answer)
    fields = top_level_fields(bytes(raw)) if raw else []
    if len(fields) < 2:
        return None
    fields.pop(rng.randrange(len(fields)))
    return base64.b64encode(b"".join(field for _, field in fields)).decode()


DAMAGES: list[tuple[Damage, list[str]]] = [
    (drop_member, REQUESTS),
    (null_member, REQUESTS),
    (unknown_member, REQUESTS + RESPONSES),
    (float_as_integer, ["sample_request", "optim_step_request", "adam_params", "sampling_params"]),
    (one_ulp, ["adam_params", "optim_step_response", "billing_usage_response"]),
    (lost_sign, ["adam_params", "sampling_params", "optim_step_response"]),
    (off_by_one, [*REQUESTS[:3], "training_runs_response", "client_config_response", "cursor"]),
    (rounded_integer, ["create_model_request", "cursor", "lora_config", "training_run"]),
    (lost_offset, ["telemetry_send_request", "training_run", "session_search_cursor"]),
    (lost_fraction, ["telemetry_send_request", "training_run", "get_billing_usage_request"]),
    (lost_character, [*REQUESTS[:3], "training_runs_response", "get_info_response"]),
    (lost_null, ["create_session_request", "telemetry_send_request", "create_custom_loss_request"]),
    (swapped_tag, ["session_search_request", *RESPONSES[2:3], *RESPONSES[5:], "image_chunk"]),
    (shorter_list, ["sample_request", "telemetry_send_request", "session_search_response"]),
    (refuse, REQUESTS + RESPONSES + PROTOS),
    (accept, REQUESTS + RESPONSES),
    (accept_message, [*PROTOS, "tensor_data"]),
    (wrong_path, REQUESTS + RESPONSES + PROTOS),
    (no_path, REQUESTS + RESPONSES + PROTOS),
    (flipped_bit, PROTOS),
    (lost_field, PROTOS),
]  # fmt: skip


class Damaging(Tool):
    """The tool with one answer changed."""

    def __init__(self, path: str, damage: Damage, seed: str) -> None:
        super().__init__(path)
        self.damage = damage
        self.rng = random.Random(seed)
        self.done = ""

    def lines(self, name: str, flags: tuple[str, ...], lines: list[str]) -> list[str]:
        answers = super().lines(name, flags, lines)
        order = list(range(len(answers)))
        self.rng.shuffle(order)
        for index in order if not self.done else []:
            damaged = self.damage(answers[index], self.rng)
            if damaged is not None and damaged != answers[index]:
                self.done = f"{answers[index][:200]} -> {damaged[:200]}"
                answers[index] = damaged
                break
        return answers


def failures(tool: Tool, name: str, seed: int, count: int) -> int:
    report = Parity(tool, seed, count).check_type(catalogue.wire_types()[name])
    return len(report.failures)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tinker", required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    clean: dict[str, int] = {}
    noticed = missed = 0
    for damage, names in DAMAGES:
        before = noticed + missed
        for name in names:
            if name not in clean:
                clean[name] = failures(Tool(options.tinker), name, options.seed, options.count)
            tool = Damaging(options.tinker, damage, f"{options.seed}/{name}")
            found = failures(tool, name, options.seed, options.count)
            if not tool.done:
                continue  # no answer of this type has what the damage needs
            if found > clean[name]:
                noticed += 1
            else:
                print(f"{damage.__name__}: not noticed in {name}: {tool.done}")
                missed += 1
        if noticed + missed == before:
            print(f"{damage.__name__}: nothing to damage in {', '.join(names)}")
            missed += 1
    print(f"{noticed} damages noticed, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
