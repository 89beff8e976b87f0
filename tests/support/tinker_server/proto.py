"""Just enough protobuf: messages as {field number: [value, ...]}; values are ints, floats or bytes."""

import struct


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def parse(data):
    fields, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        fields.setdefault(number, []).append(value)
    return fields


def one(fields, number, default=b""):
    return fields.get(number, [default])[-1]


def text(fields, number):
    return one(fields, number).decode()


def ints(fields, number):
    """A repeated integer field, packed or not."""
    out = []
    for value in fields.get(number, []):
        if isinstance(value, int):
            out.append(value)
            continue
        at = 0
        while at < len(value):
            item, at = _varint(value, at)
            out.append(item)
    return out


def entries(fields, number):
    """A map field: {key: bytes or number}."""
    out = {}
    for data in fields.get(number, []):
        entry = parse(data)
        out[text(entry, 1)] = one(entry, 2)
    return out


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def double(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def data(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def int32s(values):
    return struct.pack(f"<{len(values)}i", *values)


def int64s(values):
    return struct.pack(f"<{len(values)}q", *values)


FLOAT32, INT64, INT32 = 1, 2, 3


def tensor(content, dtype, shape):
    return data(1, content) + number(3, dtype) + b"".join(number(4, size) for size in shape)


def read_tensor(content):
    """(flat list, shape); a sparse one as it would be when dense."""
    fields = parse(content)
    code = {FLOAT32: "f", INT64: "q", INT32: "i"}[one(fields, 3, 0)]
    unpack = lambda raw, code: list(struct.unpack(f"<{len(raw) // struct.calcsize('<' + code)}{code}", raw))
    shape = ints(fields, 4)
    if 2 not in fields:
        return unpack(one(fields, 1), code), shape
    sparse = parse(one(fields, 2))
    values, rows, columns = unpack(one(sparse, 1), code), unpack(one(sparse, 2), "q"), unpack(one(sparse, 3), "q")
    out = [0] * (shape[0] * shape[1])
    for row in range(shape[0]):
        for i in range(rows[row], rows[row + 1]):
            out[row * shape[1] + columns[i]] = values[i]
    return out, shape
