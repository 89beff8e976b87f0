"""forward_backward: protobuf in, the toy model's gradients, protobuf out."""

import math
import struct

import proto
from http1 import Response
from model import HIGHEST_TOKEN, VOCABULARY, losses_and_slopes


class ModelError(Exception):
    """The operation failed for what the client sent; reported through its result."""


def read_datum(content):
    """(tokens of the input, {name: (values, shape)}); an image is as many zeros as it says."""
    fields = proto.parse(content)
    tokens = []
    for chunk in fields.get(1, []):
        parts = proto.parse(chunk)
        if 1 in parts:
            raw = proto.one(proto.parse(parts[1][0]), 1)
            tokens += struct.unpack(f"<{len(raw) // 4}i", raw)
        elif 2 in parts:
            tokens += [0] * proto.one(proto.parse(parts[2][0]), 3, 0)
        else:
            raise ModelError("this server's model reads nothing but tokens and images")
    inputs = {name: proto.read_tensor(value) for name, value in proto.entries(fields, 2).items()}
    return tokens, inputs


def check_datum(tokens, tensors):
    if "target_tokens" not in tensors:
        raise ModelError("a datum has no target_tokens")
    targets, shape = tensors["target_tokens"]
    if shape[:1] != [len(tokens)]:
        raise ModelError(f"target_tokens has the shape {shape} for {len(tokens)} tokens")
    for name, (values, _) in tensors.items():
        if len(values) != len(targets):
            raise ModelError(f"{name} has {len(values)} values for {len(targets)} targets")
    for token in (*tokens, *targets):
        if not 0 <= token < HIGHEST_TOKEN:
            raise ModelError(f"there is no token {token}")


def run_datum(model, loss_fn, config, content, is_training):
    """(loss, logprobs, their shape)."""
    tokens, tensors = read_datum(content)
    check_datum(tokens, tensors)
    targets, shape = tensors["target_tokens"]
    inputs = {name: values for name, (values, _) in tensors.items()}
    width = shape[1] if len(shape) > 1 else 1
    places = [(tokens[i // width] % VOCABULARY, target % VOCABULARY) for i, target in enumerate(targets)]
    logprobs = [model.logprobs(last)[target] for last, target in places]
    try:
        results = losses_and_slopes(loss_fn, logprobs, inputs, config)
    except (KeyError, ValueError) as error:
        raise ModelError(f"loss '{loss_fn}': {error}") from error
    if is_training:
        for (last, target), (_, slope) in zip(places, results):
            model.add_gradient(last, target, slope)
    return math.fsum(loss for loss, _ in results), logprobs, shape


def encode_output(loss, outputs):
    records = b""
    for logprobs, shape in outputs:
        batched = proto.data(1, proto.floats(logprobs)) + proto.data(2, proto.int64s([0, 4 * len(logprobs)]))
        batched += proto.number(3, proto.FLOAT32) + b"".join(proto.number(4, size) for size in shape[1:])
        entry = proto.data(1, "logprobs") + proto.data(2, batched)
        records += proto.data(2, proto.data(1, "ArrayRecord") + proto.data(2, entry) + proto.number(3, 1))
    metric = proto.data(1, "loss:sum") + proto.double(2, loss)
    return proto.data(1, "ArrayRecord") + records + proto.data(3, metric)


def decompressed(body):
    try:
        import zstandard  # not of the standard library: only clients that are told to compress need it

        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    except ImportError as error:
        raise ValueError("this server has no zstd") from error
    except zstandard.ZstdError as error:
        raise ValueError(f"no zstd: {error}") from error


def forward_backward(body, is_compressed, model_of):
    """(model id, seq id, what computes the result)."""
    fields = proto.parse(decompressed(body) if is_compressed else body)
    model_id = proto.text(fields, 1)
    model = model_of(model_id)
    loss_fn = proto.text(fields, 4)
    is_training = not proto.one(fields, 6, 0)
    config = {name: value for name, value in proto.entries(fields, 5).items() if isinstance(value, float)}

    def compute():
        results = [run_datum(model, loss_fn, config, content, is_training) for content in fields.get(3, [])]
        total = math.fsum(loss for loss, _, _ in results)
        output = encode_output(total, [(logprobs, shape) for _, logprobs, shape in results])
        return Response(output, content_type="application/x-protobuf")

    return model_id, proto.one(fields, 2, 0), compute
