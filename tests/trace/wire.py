"""Bodies of requests as values that can be compared and read."""

import importlib.util
import json
import pathlib
import struct

import zstandard
from google.protobuf import unknown_fields
from google.protobuf.descriptor import FieldDescriptor


def official_messages():
    """The official SDK's generated module, without the SDK around it, which takes a second to import."""
    package = pathlib.Path(importlib.util.find_spec("tinker").origin).parent
    spec = importlib.util.spec_from_file_location("tinker_public_pb2", package / "proto" / "tinker_public_pb2.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MESSAGES = official_messages()
ELEMENTS = {MESSAGES.DTYPE_FLOAT32: "f", MESSAGES.DTYPE_INT64: "q", MESSAGES.DTYPE_INT32: "i"}


def unpack(data, code):
    return list(struct.unpack(f"<{len(data) // struct.calcsize('<' + code)}{code}", data))


def read_tensor(message):
    """A Tensor with its numbers; the sizes in bytes are those of the numbers."""
    out = read_message(message)
    code = ELEMENTS[message.dtype]
    if "dense" in out:
        out["dense"] = unpack(message.dense, code)
    if "sparse_csr" in out:
        parts = message.sparse_csr
        out["sparse_csr"] = {
            "values": unpack(parts.values, code),
            "crow_indices": unpack(parts.crow_indices, "q"),
            "col_indices": unpack(parts.col_indices, "q"),
        }
    return out


def read_value(field, value):
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return read_tensor(value) if field.message_type.name == "Tensor" else read_message(value)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bytes):
        return unpack(value, "i") if field.full_name.endswith("EncodedTextChunk.tokens") else value.hex()
    return value


def is_map(field):
    return field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.GetOptions().map_entry


def read_message(message):
    """The fields that are set, by name; one that the official schema lacks is a mistake."""
    if len(unknown_fields.UnknownFieldSet(message)):
        raise ValueError(f"a {message.DESCRIPTOR.name} has a field that the official schema lacks")
    out = {}
    for field, value in message.ListFields():
        if is_map(field):
            inner = field.message_type.fields_by_name["value"]
            out[field.name] = {key: read_value(inner, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            out[field.name] = [read_value(field, item) for item in value]
        else:
            out[field.name] = read_value(field, value)
    return out


def without_duplicates(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError(f"a name occurs twice among {[name for name, _ in pairs]}")
    return out


def read_body(headers, body):
    """JSON as it is, a protobuf message as its fields, nothing as None."""
    if not body:
        return None
    if headers.get("content-encoding") == "zstd":
        body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
    if headers.get("content-type") == "application/x-protobuf":
        return read_message(MESSAGES.ForwardBackwardRequest.FromString(body))
    return json.loads(body, object_pairs_hook=without_duplicates)
