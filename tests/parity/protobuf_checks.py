"""The checks of the protobuf types: messages in, messages out, both read by the official package."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import compare
import numpy as np
import protobuf_cases as cases
from catalogue import WireType
from generate import Maker
from json_checks import Job, error_text
from protobuf_cases import pb
from tinker import types
from tinker.proto import request_conv

MESSAGES = {
    "forward_backward_request": pb.ForwardBackwardRequest,
    "datum": pb.Datum,
    "tensor_data": pb.Tensor,
    "sample_response": pb.SampleResponse,
    "forward_backward_output": pb.ForwardBackwardOutput,
}
DECODERS = {"sample_response": cases.decode_sample, "forward_backward_output": cases.decode_output}
Group = tuple[tuple[str, ...], Iterator[Job]]


def line(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def answer_bytes(answer: str) -> bytes:
    return base64.b64decode(answer, validate=True)


class ProtoChecks:
    """All jobs of one protobuf type, grouped by the options the tool is started with."""

    def __init__(self, row: WireType, seed: int, count: int) -> None:
        self.row = row
        self.count = count
        self.seed = f"{seed}/{row.name}"
        self.message = MESSAGES[row.name]

    def rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed}/{purpose}")

    def groups(self) -> Iterator[Group]:
        if self.row.name == "tensor_data":
            yield ("--from", "proto", "--to", "proto"), self.tensors()
            yield ("--from", "json", "--to", "proto"), self.json_to_proto()
            yield ("--from", "proto", "--to", "json"), self.proto_to_json()
        elif self.row.name in DECODERS:
            yield (), self.responses()
        else:
            yield (), self.requests()

    # Judging.

    def parse(self, answer: str) -> tuple[Any, str | None]:
        """Our message, or what is wrong with the line."""
        refusal = error_text(answer)
        if refusal is not None:
            return None, f"refused: {refusal}"
        try:
            made = self.message()
            made.ParseFromString(answer_bytes(answer))
        except Exception as error:  # the decoder has its own exception classes
            return None, f"not a message: {error}"
        return made, None

    def same_message(self, expected: Any, read: Callable[[Any], Any] = cases.as_plain) -> Any:
        wanted = read(expected)

        def judge(answer: str) -> str | None:
            made, problem = self.parse(answer)
            return problem or compare.difference(wanted, read(made))

        return judge

    def same_meaning(self, wanted: dict) -> Any:
        decode = DECODERS[self.row.name]

        def judge(answer: str) -> str | None:
            made, problem = self.parse(answer)
            if problem:
                return problem
            try:
                return compare.difference(wanted, decode(cases.serialised(made)))
            except Exception as error:
                return f"the official decoder refuses ours: {error}"

        return judge

    def refused(self, answer: str) -> str | None:
        error = error_text(answer)
        if error is None:
            return "accepted"
        names = {field.name for field in self.message.DESCRIPTOR.fields} | {"$", "data"}
        names |= {"sparse_crow_indices", "sparse_col_indices"}
        head = error.split(":")[0].split(".")[0].split("[")[0]
        return None if head in names else f"the path {head!r} is no member of the message"

    def bad(self, messages: Iterator[tuple[str, bytes]]) -> Iterator[Job]:
        for name, raw in messages:
            yield Job("refusals", line(raw), self.refused, f"{name}; expected: refuse")
        yield Job("refusals", "not base64!", self.refused, "not base64; expected: refuse")

    # Requests.

    def requests(self) -> Iterator[Job]:
        rng = self.rng("requests")
        for _ in range(self.count):
            message = cases.request(rng)
            if self.row.name == "forward_backward_request":
                yield from self.request(rng, message)
            else:
                yield from self.datums(rng, message)
        yield from self.request_examples()
        bad = cases.bad_requests if self.row.name == "forward_backward_request" else cases.bad_datums
        yield from self.bad(bad())

    def request(self, rng: random.Random, message: Any) -> Iterator[Job]:
        for raw, expected in cases.request_variants(rng, message):
            yield Job("instances", line(raw), self.same_message(expected), str(expected))

    def datums(self, rng: random.Random, message: Any) -> Iterator[Job]:
        for item in message.data or [request_conv.public_pb.Datum()]:
            raw = cases.serialised(item)
            yield Job("instances", line(raw), self.same_message(item), str(item))
            yield Job("instances", line(cases.reordered(rng, raw)), self.same_message(item), str(item))

    def request_examples(self) -> Iterator[Job]:
        if self.row.name == "datum":
            yield from self.datum_examples()
            return
        for suffix in ("", "3001", cases.CONFIG_NUMBER, cases.CONFIG_TEXT, cases.CONFIG_EMPTY_TEXT,
                       cases.CONFIG_NUMBER[:28]):  # fmt: skip
            raw = bytes.fromhex(cases.REQUEST_3_3 + suffix)
            expected = cases.mirrored(self.message.FromString(raw))
            yield Job("worked examples", line(raw), self.same_message(expected), str(expected))
        for raw in cases.request_forms():
            expected = cases.mirrored(self.message.FromString(raw))
            yield Job("wire forms", line(raw), self.same_message(expected), str(expected))

    def datum_examples(self) -> Iterator[Job]:
        chunk = cases.delimited(1, bytes.fromhex(cases.IMAGE_CHUNK))
        spans = b"".join(
            cases.delimited(number, bytes.fromhex(text)) for number in (3, 4) for text in cases.SPANS_3_4
        )
        entries = b"".join(
            cases.delimited(2, cases.delimited(1, name) + cases.delimited(2, bytes.fromhex(text)))
            for name, text in [(b"a", cases.SPARSE_3_3), (b"b", cases.EMPTY_DENSE), (b"c", cases.SCALAR_3_1)]
        )
        for raw in (chunk, spans, entries, chunk + entries + spans, b"", cases.delimited(1, b"\x0a\x00")):
            expected = self.message.FromString(raw)
            yield Job("worked examples", line(raw), self.same_message(expected), str(expected))

    # Tensors.

    def tensors(self) -> Iterator[Job]:
        rng = self.rng("tensors")
        for number in range(self.count):
            if number % 2:
                message = cases.tensor(rng, list(cases.ELEMENTS))
            else:
                message = request_conv._tensor_data_to_proto(cases.tensor_data(rng))
            judge = self.same_message(cases.widened(message), cases.plain_tensor)
            yield Job("messages", line(cases.serialised(message)), judge, str(message))
            yield Job("messages", line(cases.unpacked(message)), judge, str(message))
        for text in (cases.SPARSE_3_3, cases.EMPTY_DENSE, cases.SCALAR_3_1):
            message = pb.Tensor.FromString(bytes.fromhex(text))
            judge = self.same_message(message, cases.plain_tensor)
            yield Job("worked examples", line(bytes.fromhex(text)), judge, str(message))
        for raw in cases.tensor_forms():
            message = pb.Tensor.FromString(raw)
            yield Job("wire forms", line(raw), self.same_message(message, cases.plain_tensor), str(message))
        yield from self.bad(cases.bad_tensors())

    def json_to_proto(self) -> Iterator[Job]:
        maker = Maker(f"{self.seed}/json")
        for _ in range(self.count):
            made = maker.tensor()
            tensor = types.TensorData(**made)
            expected = request_conv._tensor_data_to_proto(tensor)
            judge = self.same_message(expected, cases.plain_tensor)
            yield Job("JSON to protobuf", json.dumps(made), judge, str(expected))
        for name, made in cases.bad_json_tensors():
            verdict = f"{name}; expected: refuse"
            yield Job("refusals", json.dumps(made), self.refused, verdict)

    def proto_to_json(self) -> Iterator[Job]:
        rng = self.rng("to json")
        for _ in range(self.count):
            message = cases.tensor(rng, list(cases.ELEMENTS), finite=True)
            official = str(cases.widened(message))
            raw = cases.serialised(message)
            yield Job("protobuf to JSON", line(raw), json_tensor_judge(message), official)

    # Responses.

    def responses(self) -> Iterator[Job]:
        rng = self.rng("responses")
        make = cases.sample_response if self.row.name == "sample_response" else cases.output
        decode = DECODERS[self.row.name]
        for _ in range(self.count):
            message = make(rng)
            raw = cases.serialised(message)
            wanted = decode(raw)
            judge = self.same_meaning(wanted)
            yield Job("instances", line(raw), judge, str(message))
            yield Job("instances", line(cases.reordered(rng, raw)), judge, str(message))
            yield Job("unknown members", line(raw + cases.UNKNOWN_FIELDS), judge, str(message))
        yield from self.response_examples()
        if self.row.name == "sample_response":
            yield from self.newer_samples()
        bad = cases.bad_samples if self.row.name == "sample_response" else cases.bad_outputs
        yield from self.bad(self.officially_bad(bad()))

    def newer_samples(self) -> Iterator[Job]:
        for message in cases.newer_samples():
            raw = cases.serialised(message)
            yield Job("unknown enumeration value", line(raw), self.same_message(message), str(message))

    def officially_bad(self, messages: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Only what the official decoder refuses, so that a mistake in a case cannot hide."""
        for name, raw in messages:
            try:
                DECODERS[self.row.name](raw)
            except Exception:
                yield name, raw
            else:
                raise AssertionError(f"the official decoder accepts the case {name!r}")

    def response_examples(self) -> Iterator[Job]:
        raws = [b""]
        if self.row.name == "sample_response":
            raws += [bytes.fromhex(text) for text in (cases.SAMPLE_4_2, cases.SAMPLE_4_2_NEWER)]
        else:
            raws += [bytes.fromhex(cases.OUTPUT_5_5), *cases.edge_outputs()]
        for raw in raws:
            wanted = DECODERS[self.row.name](raw)
            yield Job("worked examples", line(raw), self.same_meaning(wanted), json.dumps(wanted))


def json_tensor_judge(message: pb.Tensor) -> Callable[[str], str | None]:
    """A tensor message and its JSON form mean the same."""
    expected = cases.widened(message)
    dtype = "float32" if expected.dtype == pb.DTYPE_FLOAT32 else "int64"
    sparse = expected.HasField("sparse_csr")
    raw = expected.sparse_csr.values if sparse else expected.dense
    elements = np.frombuffer(raw, dtype=cases.ELEMENTS[expected.dtype]).tolist()
    shapes: list[Any] = [list(expected.shape)] if expected.shape else [None, []]

    def judge(answer: str) -> str | None:
        if (refusal := error_text(answer)) is not None:
            return f"refused: {refusal}"
        tokens = compare.parse_tokens(answer)
        if problem := compare.form_problem(_model(), tokens):
            return problem
        made = compare.plain(tokens)
        if made.get("dtype") != dtype or made.get("shape") not in shapes:
            return f"dtype {made.get('dtype')}, shape {made.get('shape')}; expected {dtype}, {shapes}"
        if compare.canonical_elements(dtype, made["data"]) != compare.canonical_elements(dtype, elements):
            return "the elements differ"
        return _index_problem(expected, made) if sparse else None

    return judge


def _model() -> Any:
    from tinker.types._pydantic_types.tensor_data import TensorData

    return TensorData


def _index_problem(expected: pb.Tensor, made: dict) -> str | None:
    for name, raw in (
        ("sparse_crow_indices", expected.sparse_csr.crow_indices),
        ("sparse_col_indices", expected.sparse_csr.col_indices),
    ):
        if made.get(name) != np.frombuffer(raw, dtype="<i8").tolist():
            return f"{name} is {made.get(name)}"
    return None
