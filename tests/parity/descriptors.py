"""Compares our readable protobuf schema with the descriptor inside the official package.

    python descriptors.py proto/tinker_public.proto [--protoc protoc]

Run it with the Python of a virtual environment that has the official package. Exit status 1, with the
first differences, when the two describe different messages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2
from tinker.proto import tinker_public_pb2

SHOWN = 20


def compiled(schema: Path, protoc: str) -> descriptor_pb2.FileDescriptorProto:
    """The descriptor that protoc makes of the schema."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "set.pb"
        subprocess.run(
            [protoc, f"--proto_path={schema.parent}", f"--descriptor_set_out={output}", schema.name],
            check=True,
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())
    return files.file[0]


def official() -> descriptor_pb2.FileDescriptorProto:
    """The descriptor embedded in the official package."""
    return descriptor_pb2.FileDescriptorProto.FromString(tinker_public_pb2.DESCRIPTOR.serialized_pb)


def field_facts(message: Any, field: Any) -> dict[str, Any]:
    """Everything about a field that matters on the wire or to a reader.

    The JSON name is left out: protoc derives it, and the embedded descriptor comes without it.
    """
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
    return {
        "number": field.number,
        "label": field.label,
        "type": field.type,
        "type name": field.type_name,
        "oneof": oneof,
        "proto3 optional": field.proto3_optional,
        "default": field.default_value,
        "options": field.options.SerializeToString().hex(),
    }


def message_facts(message: Any, name: str) -> dict[str, Any]:
    """A message and the messages and enumerations inside it, flat."""
    facts: dict[str, Any] = {
        name: {
            "fields": [field.name for field in message.field],
            "oneofs": [oneof.name for oneof in message.oneof_decl],
            "map entry": message.options.map_entry,
            "reserved": [str(item) for item in message.reserved_range],
        }
    }
    for field in message.field:
        facts[f"{name}.{field.name}"] = field_facts(message, field)
    for inner in message.nested_type:
        facts |= message_facts(inner, f"{name}.{inner.name}")
    for inner in message.enum_type:
        facts[f"{name}.{inner.name}"] = enum_facts(inner)
    return facts


def enum_facts(enumeration: Any) -> dict[str, Any]:
    return {"values": [(value.name, value.number) for value in enumeration.value]}


def facts(file: descriptor_pb2.FileDescriptorProto) -> dict[str, Any]:
    """The whole file as name -> facts. The file's own name and source positions do not count."""
    made: dict[str, Any] = {
        "(file)": {
            "package": file.package,
            "syntax": file.syntax,
            "imports": list(file.dependency),
            "messages": [message.name for message in file.message_type],
            "enumerations": [enumeration.name for enumeration in file.enum_type],
            "services": [service.name for service in file.service],
        }
    }
    for message in file.message_type:
        made |= message_facts(message, message.name)
    for enumeration in file.enum_type:
        made[enumeration.name] = enum_facts(enumeration)
    return made


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    found = [f"{name}: only the official schema has it" for name in theirs if name not in ours]
    found += [f"{name}: only our schema has it" for name in ours if name not in theirs]
    for name in ours:
        for key, value in ours[name].items():
            if name in theirs and theirs[name][key] != value:
                found.append(f"{name}: {key} is {value!r}, officially {theirs[name][key]!r}")
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("schema", type=Path)
    parser.add_argument("--protoc", default="protoc")
    options = parser.parse_args(arguments)
    ours, theirs = facts(compiled(options.schema, options.protoc)), facts(official())
    found = differences(ours, theirs)
    for line in found[:SHOWN]:
        print(line)
    if len(found) > SHOWN:
        print(f"and {len(found) - SHOWN} more")
    if not found:
        print(f"{options.schema.name}: same as the official descriptor ({len(ours)} entries)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
