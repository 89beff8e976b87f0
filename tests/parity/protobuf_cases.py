"""Random protobuf messages, good and bad, and their meaning.

Requests are built from the official types and encoded by the official converter, as a client does.
Responses are built message by message, because the official package has no encoder for them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from tinker import types
from tinker.proto import request_conv, response_conv
from tinker.proto import tinker_public_pb2 as pb
from tinker.types.forward_backward_input import ForwardBackwardInput
from tinker.types.forward_backward_request import ForwardBackwardRequest

PADDING = -99999.0  # with token 0: an empty cell of a top-k matrix (PROTOBUF 4)
ELEMENTS = {
    pb.DTYPE_FLOAT32: np.dtype("<f4"),
    pb.DTYPE_INT64: np.dtype("<i8"),
    pb.DTYPE_INT32: np.dtype("<i4"),
    pb.DTYPE_BFLOAT16: np.dtype("<u2"),
}
HAS_SPANS = hasattr(types, "PromptProvenanceSpan")
LOSSES = ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "a_later_loss", ""]
KEYS = ["target_tokens", "weights", "advantages", "logprobs", "clip_low_threshold", "own/ключ"]

# The worked examples of PROTOBUF.md, sections 3.3, 3.4, 4.2 and 5.5.
REQUEST_3_3 = (
    "0a0b732d313a747261696e3a3010011a540a0c0a0a0a080a0000000b00000012280a0d7461726765745f746f6b656e73"
    "12170a100b000000000000000c000000000000001802220102121a0a0777656967687473120f0a08000000000000803f"
    "1801220102220d63726f73735f656e74726f7079"
)
CONFIG_NUMBER = "2a0c0a016111000000000000f03f" + "3a0e0a0161120909000000000000f03f"
CONFIG_TEXT = "3a080a01621203120178"
CONFIG_EMPTY_TEXT = "3a070a016112021200"
SPARSE_3_3 = (
    "123e0a080000803f0000004012200000000000000000010000000000000001000000000000000200000000000000"
    "1a1001000000000000000300000000000000180122020304"
)
EMPTY_DENSE = "0a001801220100"
SCALAR_3_1 = "0a040000003f1801"
IMAGE_CHUNK = "120d0a0489504e471203706e671800"
SPANS_3_4 = ["0a060a0271301801", "12080a02713010031802", "0a030a0171"]
SAMPLE_4_2 = (
    "0a160801120805000000060000001a08000000bf000080be12080000c07f000080bf"
    "1a180a0800000000070000001208804fc3c7000080bf180120022001"
)
SAMPLE_4_2_NEWER = (
    "0a2808011204050000001a04000000bf22180a0805000000090000001208000000bf000080bf18022001"
    "2a0c0a04000040c0180122020101321c0a0c0a0407000000180322020101120c0a04000000c0180122020101"
)
OUTPUT_5_5 = (
    "0a0f546f7263684c6f737352657475726e124b0a0f546f7263684c6f737352657475726e12360a086c6f6770726f6273"
    "122a0a0c000000bf000080bf000000c01218000000000000000008000000000000000c00000000000000180118021a13"
    "0a086c6f73733a73756d110000000000000c40"
)


# Wire helpers.


def serialised(message: Any) -> bytes:
    """The bytes of a message, the same in every run: map entries are sorted."""
    return message.SerializeToString(deterministic=True)


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes(made + bytes([number]))


def delimited(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def top_level_fields(message: bytes) -> list[tuple[int, bytes]]:
    """The fields of a message in order, each with its tag."""
    found, start = [], 0
    while start < len(message):
        tag, at = _read_varint(message, start)
        kind = tag & 7
        if kind == 0:
            _, at = _read_varint(message, at)
        elif kind == 2:
            size, at = _read_varint(message, at)
            at += size
        else:
            at += 8 if kind == 1 else 4
        found.append((tag >> 3, message[start:at]))
        start = at
    return found


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def reordered(rng: random.Random, message: bytes) -> bytes:
    """The same message with its fields in another order; repeated ones keep theirs."""
    fields = top_level_fields(message)
    numbers = sorted({number for number, _ in fields})
    rng.shuffle(numbers)
    return b"".join(raw for wanted in numbers for number, raw in fields if number == wanted)


UNKNOWN_FIELDS = (
    varint(1000 << 3) + varint(2**63)
    + delimited(1001, b"later \xff")
    + varint(1002 << 3 | 1) + b"8 bytes."
    + varint(1003 << 3 | 5) + b"four"
)  # fmt: skip


def as_plain(message: Any) -> dict[str, Any]:
    """A message as dictionaries: maps without order, floats by their text, presence kept."""
    made: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        made[descriptor.name] = _plain_field(descriptor, value)
    return made


def _plain_field(descriptor: Any, value: Any) -> Any:
    if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
        return {key: _plain_value(item) for key, item in value.items()}
    if not isinstance(value, (str, bytes)) and hasattr(value, "__len__") and not hasattr(value, "ListFields"):
        return [_plain_value(item) for item in value]
    return _plain_value(value)


def _plain_value(value: Any) -> Any:
    if hasattr(value, "ListFields"):
        return as_plain(value)
    if isinstance(value, bytes):
        return value.hex()
    return repr(value)


# Arrays.


def bits(array: Any) -> str:
    """An array's elements as hex; all NaNs are the same."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.float32(np.nan), array).astype("<f4")
    return array.tobytes().hex()


def floats(rng: random.Random, count: int, finite: bool = False) -> np.ndarray:
    pool = [0.0, -0.0, -0.5, -1.0, 1e-45, 3.4028235e38, -7.25]
    if not finite:
        pool += [math.nan, math.inf, -math.inf]
    chosen = [rng.choice(pool) if rng.random() < 0.4 else rng.uniform(-20, 1) for _ in range(count)]
    return np.asarray(chosen, dtype=np.float32)


def integers(rng: random.Random, count: int, width: int) -> np.ndarray:
    edge = 2 ** (width - 1)
    pool = [0, 1, -1, edge - 1, -edge]
    chosen = [rng.choice(pool) if rng.random() < 0.4 else rng.randrange(200_000) for _ in range(count)]
    return np.asarray(chosen, dtype=f"<i{width // 8}")


def elements(rng: random.Random, dtype: int, count: int, finite: bool = False) -> bytes:
    """Raw elements of a proto dtype."""
    if dtype == pb.DTYPE_FLOAT32:
        return floats(rng, count, finite).tobytes()
    if dtype == pb.DTYPE_BFLOAT16:
        upper = floats(rng, count, finite).view("<u4") >> 16
        return upper.astype("<u2").tobytes()
    return integers(rng, count, 64 if dtype == pb.DTYPE_INT64 else 32).tobytes()


def csr(rng: random.Random, rows: int, columns: int) -> tuple[list[int], list[int]]:
    crow, col = [0], []
    for _ in range(rows):
        col += sorted(rng.sample(range(columns), rng.randrange(columns + 1)))
        crow.append(len(col))
    return crow, col


def shape_of(rng: random.Random) -> list[int]:
    return rng.choice([[], [0], [1], [rng.randrange(1, 6)], [2, 3], [0, 3], [1, 2, 2]])


# Requests.


def tensor_data(rng: random.Random, finite: bool = False) -> types.TensorData:
    """A tensor as a user would have it."""
    dtype = rng.choice(["float32", "int64"])
    make = lambda n: floats(rng, n, finite) if dtype == "float32" else integers(rng, n, 64)  # noqa: E731
    if rng.random() < 0.3:
        rows, columns = rng.randrange(1, 4), rng.randrange(1, 5)
        crow, col = csr(rng, rows, columns)
        return types.TensorData(
            data=make(len(col)), dtype=dtype, shape=[rows, columns],
            sparse_crow_indices=crow, sparse_col_indices=col,
        )  # fmt: skip
    shape = shape_of(rng)
    data = make(math.prod(shape))
    if rng.random() < 0.2:
        return types.TensorData(data=data, dtype=dtype)
    return types.TensorData(data=data, dtype=dtype, shape=shape)


def chunk(rng: random.Random) -> Any:
    kind = rng.randrange(4)
    if kind < 2:
        tokens = integers(rng, rng.randrange(5), 32).tolist()
        return types.EncodedTextChunk(tokens=tokens)
    data = rng.randbytes(rng.randrange(30))
    if kind == 2:
        expected = rng.choice([None, 0, 1, 64, 2**31 - 1])
        return types.ImageChunk(data=data, format=rng.choice(["png", "jpeg"]), expected_tokens=expected)
    return types.DmelChunk(dmel=data) if hasattr(types, "DmelChunk") else _dmel(data)


def _dmel(data: bytes) -> Any:
    from tinker.types.dmel_chunk import DmelChunk

    return DmelChunk(dmel=data)


def spans(rng: random.Random) -> dict[str, Any]:
    """Both span lists or neither (PROTOBUF 3.4)."""
    if not HAS_SPANS or rng.random() < 0.4:
        return {}
    classes = [types.PromptProvenanceSpan, types.SampledProvenanceSpan]
    numbers = [0, 1, 7, 2**40]
    run = lambda: [  # noqa: E731
        rng.choice(classes)(
            sequence_id=rng.choice(["q", "r-1:0", "é"]),
            offset=rng.choice(numbers), length=rng.choice(numbers),
        )
        for _ in range(rng.randrange(4))
    ]  # fmt: skip
    return {"model_input_spans": run(), "loss_fn_input_spans": run()}


def datum(rng: random.Random) -> types.Datum:
    chunks = [chunk(rng) for _ in range(rng.randrange(4))]
    names = rng.sample(KEYS, rng.randrange(len(KEYS)))
    inputs = {name: tensor_data(rng) for name in names}
    return types.Datum(
        model_input=types.ModelInput(chunks=chunks), loss_fn_inputs=inputs, **spans(rng)
    )


def loss_config(rng: random.Random) -> dict[str, Any] | None:
    if rng.random() < 0.3:
        return None
    values: list[Any] = [0, 1, 0.2, -0.0, True, math.nan, math.inf, 1e300]
    if "loss_fn_config_v2" in pb.ForwardBackwardRequest.DESCRIPTOR.fields_by_name:
        values += ["", "x", "ünï"]
    return {rng.choice(["a", "beta", "loss_id", ""]): rng.choice(values) for _ in range(rng.randrange(4))}


def request(rng: random.Random) -> pb.ForwardBackwardRequest:
    """A request as the official client encodes it."""
    made = request_conv.forward_backward_request_to_proto(
        ForwardBackwardRequest(
            forward_backward_input=ForwardBackwardInput(
                data=[datum(rng) for _ in range(rng.randrange(4))],
                loss_fn=rng.choice(LOSSES),  # type: ignore[arg-type]
                loss_fn_config=loss_config(rng),
            ),
            model_id=rng.choice(["s-1:train:0", "", "mödel"]),
            seq_id=rng.choice([1, 2, 300, 2**31 - 1]),
        )
    )
    made.forward_only = rng.random() < 0.3
    return made


def mirrored(message: pb.ForwardBackwardRequest) -> pb.ForwardBackwardRequest:
    """The message with both loss-config fields, as a current client writes them (PROTOBUF 3)."""
    made = pb.ForwardBackwardRequest()
    made.CopyFrom(message)
    if "loss_fn_config_v2" not in made.DESCRIPTOR.fields_by_name:
        return made
    if not made.loss_fn_config_v2:
        for key, number in message.loss_fn_config.items():
            made.loss_fn_config_v2[key].number = number
        return made
    made.ClearField("loss_fn_config")
    for key, value in message.loss_fn_config_v2.items():
        if value.WhichOneof("value") == "number":
            made.loss_fn_config[key] = value.number
    return made


def request_variants(rng: random.Random, message: Any) -> Iterator[tuple[bytes, Any]]:
    """(bytes to send, message expected back): as encoded, reordered, and with one config field only."""
    raw = serialised(message)
    yield raw, mirrored(message)
    yield reordered(rng, raw), mirrored(message)
    for field in ("loss_fn_config", "loss_fn_config_v2"):
        if field in message.DESCRIPTOR.fields_by_name and rng.random() < 0.3:
            partial = pb.ForwardBackwardRequest()
            partial.CopyFrom(message)
            partial.ClearField(field)
            yield serialised(partial), mirrored(partial)


def bad_tensors() -> Iterator[tuple[str, bytes]]:
    """Tensors that have no meaning (PROTOBUF 2, 3.1, 4.1)."""
    one = np.float32(1).tobytes()

    def dense(raw: bytes, shape: list[int], dtype: Any = pb.DTYPE_FLOAT32) -> bytes:
        return serialised(pb.Tensor(dense=raw, dtype=dtype, shape=shape))

    def sparse(values: bytes = one, rows: bytes = bytes(16), columns: bytes = bytes(8)) -> bytes:
        part = pb.SparseCsr(values=values, crow_indices=rows, col_indices=columns)
        return serialised(pb.Tensor(sparse_csr=part, dtype=pb.DTYPE_FLOAT32, shape=[1, 1]))

    yield "dtype missing", dense(one, [1], 0)
    yield "dtype unknown", dense(one, [1], 9)
    yield "odd length", dense(one + b"x", [1])
    yield "too few elements", dense(one, [2])
    yield "too many elements", dense(one * 3, [1, 2])
    yield "odd values", sparse(values=one + b"x")
    yield "odd row pointers", sparse(rows=bytes(15))
    yield "odd columns", sparse(columns=bytes(7))
    yield "truncated", dense(one, [1])[:3]


def bad_datums() -> Iterator[tuple[str, bytes]]:
    for name, raw in bad_tensors():
        entry = delimited(1, b"weights") + delimited(2, raw)
        yield f"tensor: {name}", delimited(2, entry)
    yield "odd tokens", delimited(1, delimited(1, delimited(1, b"abc")))


def bad_requests() -> Iterator[tuple[str, bytes]]:
    good = bytes.fromhex(REQUEST_3_3)
    for name, raw in bad_datums():
        yield name, good + delimited(3, raw)
    yield "truncated", good[:-1]
    yield "truncated in a datum", good[:40]
    if "loss_fn_config_v2" in pb.ForwardBackwardRequest.DESCRIPTOR.fields_by_name:
        yield "config value of no kind", good + delimited(7, delimited(1, b"a") + delimited(2, b""))


# Tensors by themselves.


def tensor(rng: random.Random, dtypes: list[int], finite: bool = False) -> pb.Tensor:
    """A tensor of a response, dense or sparse."""
    dtype = rng.choice(dtypes)
    made = pb.Tensor(dtype=dtype)  # type: ignore[arg-type]
    if rng.random() < 0.3:
        rows, columns = rng.randrange(1, 4), rng.randrange(1, 5)
        crow, col = csr(rng, rows, columns)
        made.sparse_csr.values = elements(rng, dtype, len(col), finite)
        made.sparse_csr.crow_indices = np.asarray(crow, dtype="<i8").tobytes()
        made.sparse_csr.col_indices = np.asarray(col, dtype="<i8").tobytes()
        made.shape.extend([rows, columns])
        return made
    shape = shape_of(rng)
    made.dense = elements(rng, dtype, math.prod(shape), finite)
    made.shape.extend(shape)
    if not made.dense and rng.random() < 0.3:
        made.ClearField("dense")  # neither arm reads as empty dense (4.1)
    return made


def unpacked(message: pb.Tensor) -> bytes:
    """The message with its shape as single fields, which a decoder must accept too (PROTOBUF 1)."""
    short = pb.Tensor()
    short.CopyFrom(message)
    short.ClearField("shape")
    return serialised(short) + b"".join(b"\x20" + varint(size) for size in message.shape)


def widen_bytes(raw: bytes, dtype: int) -> bytes:
    array = np.frombuffer(raw, dtype=ELEMENTS[dtype])
    if dtype == pb.DTYPE_BFLOAT16:
        return (array.astype("<u4") << 16).tobytes()
    return array.astype("<i8").tobytes() if dtype == pb.DTYPE_INT32 else raw


def widened(message: pb.Tensor) -> pb.Tensor:
    """The tensor as float32 or int64, by the rule of PROTOBUF 5.3."""
    made = pb.Tensor()
    made.CopyFrom(message)
    public = {pb.DTYPE_BFLOAT16: pb.DTYPE_FLOAT32, pb.DTYPE_INT32: pb.DTYPE_INT64}
    made.dtype = public.get(message.dtype, message.dtype)
    if message.HasField("sparse_csr"):
        made.sparse_csr.values = widen_bytes(message.sparse_csr.values, message.dtype)
    else:
        made.dense = widen_bytes(message.dense, message.dtype)
    return made


def plain_tensor(message: pb.Tensor) -> dict[str, Any]:
    """A tensor's meaning; NaNs are the same whatever their bits."""
    made = as_plain(message)
    if message.dtype == pb.DTYPE_FLOAT32:
        raw = message.sparse_csr.values if message.HasField("sparse_csr") else message.dense
        if len(raw) % 4 == 0:
            made["elements"] = bits(np.frombuffer(raw, dtype="<f4"))
            (made.get("sparse_csr") or made).pop("values" if "sparse_csr" in made else "dense", None)
    return made


def tensor_forms() -> Iterator[bytes]:
    """Legal encodings that a typical writer does not produce."""
    one = np.float32(1).tobytes()
    dense = serialised(pb.Tensor(dense=one, dtype=pb.DTYPE_FLOAT32, shape=[1]))
    sparse = bytes.fromhex(SPARSE_3_3)
    yield dense + sparse[:-4] + b"\x22\x01\x04"  # the last arm of a oneof wins, lists go on
    yield dense + b"\x18\x02" + b"\x18\x01"  # the last scalar wins
    half = serialised(pb.Tensor(dense=one * 6, dtype=pb.DTYPE_FLOAT32, shape=[2]))
    yield half + b"\x20\x03"  # half of the shape packed, half not
    yield b"\x98\x80\x80\x00\x01" + serialised(pb.Tensor(dense=one, shape=[1]))  # a long tag
    yield serialised(pb.Tensor(dense=b"", dtype=pb.DTYPE_INT64, shape=[0, 2**62, 8]))


def request_forms() -> Iterator[bytes]:
    good = bytes.fromhex(REQUEST_3_3)
    number = b"\x11" + np.float64(1).tobytes()
    yield good + b"\x10\x07"  # the last scalar wins
    yield good + delimited(5, delimited(1, b"a")) + delimited(5, delimited(1, b"a") + number)
    yield good + delimited(5, number) + delimited(5, delimited(1, b"a"))
    yield good + delimited(5, b"")  # a map entry without key and value


def bad_json_tensors() -> Iterator[tuple[str, dict]]:
    """Tensors the official JSON model takes and the official tensor refuses."""
    yield "too few elements", {"data": [1.0], "dtype": "float32", "shape": [2]}
    yield "too many elements", {"data": [1, 2, 3], "dtype": "int64", "shape": [1, 2]}
    yield "elements beside an empty shape", {"data": [1, 2], "dtype": "int64", "shape": []}
    yield "no element for a scalar", {"data": [], "dtype": "int64", "shape": []}
    yield "no columns", {
        "data": [1.0], "dtype": "float32", "shape": [1, 2], "sparse_crow_indices": [0, 1],
    }  # fmt: skip


# Sample responses.


def topk(rng: random.Random, made: Any, rows: int, k: int) -> None:
    """Fill a top-k message; some rows and cells are padding."""
    tokens = np.zeros((rows, k), dtype="<i4")
    scores = np.full((rows, k), PADDING, dtype="<f4")
    for row in range(rows):
        for column in range(rng.randrange(k + 1)):
            tokens[row, column] = rng.choice([0, 1, 50256, 2**31 - 1])
            scores[row, column] = rng.choice([-0.25, 0.0, -math.inf, -12.5])
    longer = rng.random() < 0.1 and rows * k > 0
    made.token_ids = tokens.tobytes() + (b"more" if longer else b"")
    made.logprobs = scores.tobytes() + (b"xx" if longer else b"")
    made.k = k
    _set_length(made, rows)


def _set_length(made: Any, rows: int) -> None:
    """Field 4 has another name in 0.25.0."""
    setattr(made, made.DESCRIPTOR.fields_by_number[4].name, rows)


def knows(field: str, message: Any = pb.SampleResponse) -> bool:
    return field in message.DESCRIPTOR.fields_by_name


def sample_response(rng: random.Random) -> pb.SampleResponse:
    made = pb.SampleResponse()
    for _ in range(rng.randrange(4)):
        sequence(rng, made.sequences.add())
    if rng.random() < 0.6:
        made.prompt_logprobs = floats(rng, rng.randrange(6)).tobytes()
    if rng.random() < 0.6:
        topk(rng, made.topk_prompt_logprobs, rng.randrange(4), rng.randrange(4))
    if rng.random() < 0.6:
        made.prompt_cache_hit_tokens = rng.choice([1, 300, 2**31 - 1])
    if knows("target_prompt_logprobs") and rng.random() < 0.5:
        floating = [pb.DTYPE_FLOAT32, pb.DTYPE_FLOAT32, pb.DTYPE_BFLOAT16]
        made.target_prompt_logprobs.CopyFrom(tensor(rng, floating))
    if knows("prompt_alt_tokens") and rng.random() < 0.5:
        alternatives(rng, made.prompt_alt_tokens)
    return made


def sequence(rng: random.Random, made: Any) -> None:
    count = rng.randrange(6)
    made.stop_reason = rng.randrange(2)
    made.tokens = integers(rng, count, 32).tobytes()
    if rng.random() < 0.7:
        made.logprobs = floats(rng, count).tobytes()
    if knows("topk_sampled_logprobs", pb.SampledSequence) and rng.random() < 0.4:
        topk(rng, made.topk_sampled_logprobs, count, rng.randrange(3))


def alternatives(rng: random.Random, made: Any) -> None:
    rows, k = rng.randrange(4), rng.randrange(1, 4)
    dtype = rng.choice([pb.DTYPE_INT32, pb.DTYPE_INT64])
    made.tokens.dtype = dtype
    made.tokens.dense = elements(rng, dtype, rows * k)
    made.logprobs.dtype = pb.DTYPE_FLOAT32
    made.logprobs.dense = elements(rng, pb.DTYPE_FLOAT32, rows * k)
    for part in (made.tokens, made.logprobs):
        part.shape.extend([rows, k])


def decode_sample(raw: bytes) -> dict[str, Any]:
    """The official reading of a sample response, bfloat16 tensors widened first (PROTOBUF 4.1)."""
    message = pb.SampleResponse()
    message.ParseFromString(raw)
    for name in ("target_prompt_logprobs",):
        if knows(name) and message.HasField(name):
            part = getattr(message, name)
            if part.dtype == pb.DTYPE_BFLOAT16:
                part.CopyFrom(widened(part))
    return plain_sample(response_conv.deserialize_sample_response(serialised(message)))


def plain_sample(made: Any) -> dict[str, Any]:
    return {
        "sequences": [
            {
                "stop_reason": item.stop_reason,
                "tokens": bits(item.tokens_np),
                "logprobs": None if item.logprobs_np is None else bits(item.logprobs_np),
                "topk": plain_topk(getattr(item, "topk_logprobs_np", None)),
            }
            for item in made.sequences
        ],
        "prompt_logprobs": None if made.prompt_logprobs_np is None else bits(made.prompt_logprobs_np),
        "topk_prompt_logprobs": plain_topk(made.topk_prompt_logprobs_np),
        "cache_hits": made.prompt_cache_hit_tokens,
        "targets": plain_tensor_data(getattr(made, "target_prompt_logprobs", None)),
        "alternatives": plain_alternatives(getattr(made, "prompt_alt_tokens", None)),
    }


def plain_topk(made: Any) -> Any:
    if made is None:
        return None
    return [list(made.token_ids.shape), bits(made.token_ids), bits(made.logprobs)]


def plain_tensor_data(made: Any) -> Any:
    if made is None:
        return None
    return [made.dtype, made.shape, bits(made._numpy), made.sparse_crow_indices, made.sparse_col_indices]


def plain_alternatives(made: Any) -> Any:
    if made is None:
        return None
    return [plain_tensor_data(made.tokens), plain_tensor_data(made.logprobs)]


def newer_samples() -> Iterator[Any]:
    """Stop reasons of later releases: the official decoder refuses them, ours keeps them (docs/parity.md)."""
    for reason in (2, 300, -1):
        made = pb.SampleResponse()
        made.sequences.add(stop_reason=reason, tokens=bytes(4))  # type: ignore[arg-type]
        yield made


def bad_samples() -> Iterator[tuple[str, bytes]]:
    one = np.float32(-1).tobytes()
    sequences = {
        "odd tokens": pb.SampledSequence(tokens=b"abc"),
        "odd logprobs": pb.SampledSequence(tokens=one, logprobs=one + b"x"),
    }
    for name, sequence_message in sequences.items():
        yield name, delimited(1, serialised(sequence_message))
    yield "odd prompt logprobs", serialised(pb.SampleResponse(prompt_logprobs=one + b"xy"))
    for name, (ids, scores) in {"ids": (one, one * 2), "scores": (one * 2, one)}.items():
        message = pb.SampleResponse()
        message.topk_prompt_logprobs.token_ids = ids
        message.topk_prompt_logprobs.logprobs = scores
        message.topk_prompt_logprobs.k = 1
        _set_length(message.topk_prompt_logprobs, 2)
        yield f"too few top-k {name}", serialised(message)
        if knows("topk_sampled_logprobs", pb.SampledSequence):
            inner = delimited(4, serialised(message.topk_prompt_logprobs))
            yield f"too few sampled top-k {name}", delimited(1, inner)
    yield "truncated", bytes.fromhex(SAMPLE_4_2)[:-1] + b"\xff"
    yield from bad_sample_tensors()


def bad_sample_tensors() -> Iterator[tuple[str, bytes]]:
    if not knows("prompt_alt_tokens"):
        return
    for name, raw in bad_tensors():
        yield f"targets: {name}", delimited(5, raw)
    shapeless = serialised(pb.Tensor(dense=bytes(8), dtype=pb.DTYPE_FLOAT32))
    yield "targets: two elements without a shape", delimited(5, shapeless)
    good = serialised(pb.Tensor(dense=bytes(4), dtype=pb.DTYPE_FLOAT32, shape=[1, 1]))
    yield "alternatives without logprobs", delimited(6, delimited(1, good))
    yield "alternatives without tokens", delimited(6, delimited(2, good))
    yield "alternatives without anything", delimited(6, b"")


# Outputs of forward and backward passes.


def output(rng: random.Random) -> pb.ForwardBackwardOutput:
    """Several records, each rectangular, that may differ in trailing shape and dtype."""
    made = pb.ForwardBackwardOutput(
        loss_fn_output_type=rng.choice(["", "TorchLossReturn", "pkg.mod:ClassName", "a:b:C"])
    )
    names = rng.sample(["logprobs", "elementwise_loss", "ратио", ""], rng.randrange(4))
    counted = rng.random() < 0.7
    for _ in range(rng.randrange(4)):
        record(rng, made.loss_fn_outputs.add(), names, rng.randrange(4), counted)
    for _ in range(rng.randrange(4)):
        value = rng.choice([0.0, -0.0, 3.5, math.nan, math.inf, -math.inf, 1e300])
        made.metrics[rng.choice(["loss:sum", "clock:mean", "custom/x:sum", "é:max"])] = value
    return made


def record(rng: random.Random, made: Any, names: list[str], datums: int, counted: bool) -> None:
    made.type_tag = rng.choice(["", "TorchLossReturn"])
    if counted:
        made.num_datums = datums
    for name in names:
        batch = made.fields[name]
        batch.dtype = rng.choice(list(ELEMENTS))
        trailing = rng.choice([[], [], [1], [2], [2, 3], [0]])
        batch.trailing_shape.extend(trailing)
        sizes = [rng.randrange(4) * math.prod(trailing) for _ in range(datums)]
        starts = np.cumsum([0] + sizes) * ELEMENTS[batch.dtype].itemsize
        batch.offsets = starts.astype("<i8").tobytes()
        batch.data = elements(rng, batch.dtype, sum(sizes))


def decode_output(raw: bytes) -> dict[str, Any]:
    made = response_conv.deserialize_forward_backward_output(raw)
    return {
        "type": made.loss_fn_output_type,
        "metrics": {key: repr(value) for key, value in made.metrics.items()},
        "outputs": [
            {name: plain_tensor_data(value) for name, value in item.items()}
            for item in made.loss_fn_outputs
        ],
    }


def bad_outputs() -> Iterator[tuple[str, bytes]]:
    def message(**changes: Any) -> bytes:
        made = pb.ForwardBackwardOutput(loss_fn_output_type="T")
        part = made.loss_fn_outputs.add(num_datums=1)
        batch = {"data": bytes(8), "offsets": np.asarray([0, 8], "<i8").tobytes(), "dtype": 1}
        part.fields["logprobs"].CopyFrom(pb.BatchedTensor(**(batch | changes)))
        return serialised(made)

    yield "dtype missing", message(dtype=0)
    yield "dtype unknown", message(dtype=9)
    yield "odd data", message(data=bytes(7))
    yield "odd offsets", message(offsets=bytes(15))
    yield "elements do not fill the trailing shape", message(trailing_shape=[3])
    yield "elements beside a trailing shape of nothing", message(trailing_shape=[0])
    yield "truncated", message()[:-2]
    yield "a field is missing in one record", _uneven()
    yield "more datums than arrays", _too_many()


def _uneven() -> bytes:
    made = pb.ForwardBackwardOutput.FromString(bytes.fromhex(OUTPUT_5_5))
    made.loss_fn_outputs[0].num_datums = 2
    made.loss_fn_outputs.add(num_datums=1)
    return serialised(made)


def _too_many() -> bytes:
    made = pb.ForwardBackwardOutput.FromString(bytes.fromhex(OUTPUT_5_5))
    made.loss_fn_outputs[0].num_datums = 3
    return serialised(made)


def edge_outputs() -> Iterator[bytes]:
    """The cases of PROTOBUF 5.2 and 5.6 that a random message rarely hits."""
    yield serialised(pb.ForwardBackwardOutput(metrics={"loss:sum": 1.5}))
    yield serialised(pb.ForwardBackwardOutput(loss_fn_output_type="a:b"))
    yield delimited(2, b"")
    stripped = pb.ForwardBackwardOutput(loss_fn_output_type="T")
    stripped.loss_fn_outputs.add(num_datums=3)
    yield serialised(stripped)
    uncounted = pb.ForwardBackwardOutput.FromString(bytes.fromhex(OUTPUT_5_5))
    uncounted.loss_fn_outputs[0].num_datums = 0
    yield serialised(uncounted)
    yield ragged([2, 6, 2], [1, 1, 1])
    yield ragged([1, 1], [1, 2])
    yield ragged([2, 2, 2], [4, 1, 4])
    rng = random.Random(0)
    for dtype in ELEMENTS:
        for trailing in ([], [3]):
            yield rectangular(rng, dtype, trailing)


def ragged(widths: list[int], dtypes: list[int]) -> bytes:
    made = pb.ForwardBackwardOutput(loss_fn_output_type="T")
    for width, dtype in zip(widths, dtypes):
        part = made.loss_fn_outputs.add(num_datums=1)
        size = ELEMENTS[dtype].itemsize * width * 2
        part.fields["topk"].data = bytes(range(1, size + 1))
        part.fields["topk"].offsets = np.asarray([0, size], "<i8").tobytes()
        part.fields["topk"].dtype = dtype
        part.fields["topk"].trailing_shape.append(width)
    return serialised(made)


def rectangular(rng: random.Random, dtype: int, trailing: list[int]) -> bytes:
    made = pb.ForwardBackwardOutput(loss_fn_output_type="T")
    part = made.loss_fn_outputs.add(num_datums=6)
    sizes = [leading * math.prod(trailing) for leading in range(6)]
    starts = np.cumsum([0] + sizes) * ELEMENTS[dtype].itemsize
    part.fields["x"].offsets = starts.astype("<i8").tobytes()
    part.fields["x"].data = elements(rng, dtype, sum(sizes))
    part.fields["x"].dtype = dtype
    part.fields["x"].trailing_shape.extend(trailing)
    return serialised(made)
