"""Lists what changed in the wire models between two releases of the official package.

    python differences.py OLD_PYTHON NEW_PYTHON [--output docs/sdk-versions.md]

OLD_PYTHON and NEW_PYTHON are the interpreters of virtual environments that have the two releases. Both
are asked to describe their models; nothing is read from documentation.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

INTRODUCTION = """\
# What changed between the releases of the official SDK

The wire models of the official Python package, {old} against {new}, found by asking both packages for
their models. Our types are those of {new}; the parity tests run against both. A client of {old} does not
send the added request members, and ignores added response members.

Made by

    python tests/parity/differences.py \\
        build/venv/tinker-{old}/bin/python build/venv/tinker-{new}/bin/python --output docs/sdk-versions.md

Names are those of `tinker wire --list`. *Strict* models refuse unknown members, *lenient* ones ignore
them, *open* ones keep them. Classes that never travel by themselves are listed too, where they changed.
"""

STRICTNESS = {"forbid": "strict", "ignore": "lenient", "allow": "open", None: "lenient"}


# Describing one release; runs inside its interpreter.


def describe() -> dict[str, Any]:
    import catalogue
    import descriptors

    classes = catalogue.official_classes()
    return {
        "release": importlib.metadata.version("tinker"),
        "types": {name: describe_class(classes[name]) for name in sorted(classes)},
        "schema": descriptors.facts(descriptors.official()),
    }


def describe_class(described: type) -> dict[str, Any]:
    if dataclasses.is_dataclass(described):
        members = {
            field.name: {"type": str(field.type), "default": data_class_default(field)}
            for field in dataclasses.fields(described)
            if not field.name.startswith("_")
        }
        return {"strictness": "data class", "members": members}
    config = described.model_config.get("extra")  # type: ignore[attr-defined]
    members = {
        name: {"type": readable(field.annotation, field.metadata), "default": model_default(field)}
        for name, field in described.model_fields.items()  # type: ignore[attr-defined]
    }
    return {"strictness": STRICTNESS[config], "members": members}


def data_class_default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        return json.dumps(field.default, default=str)
    return "required" if field.default_factory is dataclasses.MISSING else "empty"


def model_default(field: Any) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if hasattr(default, "model_dump"):
        default = default.model_dump()
    return json.dumps(default, default=str)


def readable(annotation: Any, metadata: Any = ()) -> str:
    """An annotation in words, the same for `Optional[X]` and `X | None`."""
    import hints
    from generate import limits

    parts = [readable_arm(arm) for arm in hints.arms(annotation)]
    text = " or ".join(dict.fromkeys(parts))
    bounds = [f"{name} {value}" for name, value in limits(metadata).items()]
    return f"{text} ({', '.join(bounds)})" if bounds else text


def readable_arm(arm: Any) -> str:
    import hints
    from catalogue import snake_case

    if hints.literals(arm):
        return " / ".join(f"`{value}`" for value in hints.literals(arm))
    if (inner := hints.element(arm)) is not None:
        return f"list of {grouped(inner)}"
    if (inner := hints.mapped(arm)) is not None:
        return f"map of {grouped(inner)}"
    if hints.is_datetime(arm):
        return "date-time"
    names = {str: "string", int: "int", float: "float", bool: "bool", bytes: "bytes", hints.NONE: "null"}
    if arm in names:
        return names[arm]
    return "any value" if hints.is_free(arm) else snake_case(arm.__name__)


def grouped(annotation: Any) -> str:
    """The same, in parentheses when it is a choice."""
    import hints

    text = readable(annotation)
    return f"({text})" if len(hints.arms(annotation)) > 1 else text


# Comparing two descriptions.


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(type, member, what changed) for types that both releases have."""
    rows = []
    for name in sorted(old.keys() & new.keys()):
        before, after = old[name], new[name]
        if before["strictness"] != after["strictness"]:
            rows.append((name, "", f"{before['strictness']} → {after['strictness']}"))
        rows += [(name, member, text) for member, text in member_changes(before, after)]
    return rows


def member_changes(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for member in [*before["members"], *(m for m in after["members"] if m not in before["members"])]:
        left, right = before["members"].get(member), after["members"].get(member)
        if left is None:
            rows.append((member, f"added: {right['type']}, {default_text(right)}"))
        elif right is None:
            rows.append((member, f"removed (was {left['type']})"))
        elif left != right:
            rows.append((member, changed_text(left, right)))
    return rows


def default_text(member: dict[str, str]) -> str:
    return "required" if member["default"] == "required" else f"default `{member['default']}`"


def changed_text(left: dict[str, str], right: dict[str, str]) -> str:
    texts = []
    if left["type"] != right["type"]:
        texts.append(f"{left['type']} → {right['type']}")
    if left["default"] != right["default"]:
        texts.append(f"{default_text(left)} → {default_text(right)}")
    return "; ".join(texts)


def schema_rows(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [(name, "removed") for name in sorted(old.keys() - new.keys())]
    for name in sorted(new.keys() - old.keys()):
        number = new[name].get("number")
        rows.append((name, "added" if number is None else f"added, number {number}"))
    for name in sorted(old.keys() & new.keys()):
        for key in ("number", "label", "type", "oneof", "values"):
            if old[name].get(key) != new[name].get(key):
                rows.append((name, f"{key}: {old[name].get(key)} → {new[name].get(key)}"))
    return rows


def page(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The whole document."""
    parts = [INTRODUCTION.format(old=old["release"], new=new["release"])]
    added = sorted(new["types"].keys() - old["types"].keys())
    removed = sorted(old["types"].keys() - new["types"].keys())
    parts.append(type_list(f"Types added ({len(added)})", added, new["types"]))
    parts.append(type_list(f"Types removed ({len(removed)})", removed, old["types"]))
    rows = changes(old["types"], new["types"])
    title = f"Types changed ({len({row[0] for row in rows})})"
    parts.append(table(title, ("Type", "Member", "Change"), rows))
    parts.append(table("Protobuf schema", ("Name", "Change"), schema_rows(old["schema"], new["schema"])))
    return "\n".join(parts)


def type_list(title: str, names: list[str], types: dict[str, Any]) -> str:
    lines = [f"## {title}", ""]
    for name in names:
        members = ", ".join(f"`{member}`" for member in types[name]["members"]) or "no members"
        lines.append(f"- `{name}` ({types[name]['strictness']}): {members}")
    return "\n".join(lines) + "\n"


def table(title: str, heads: tuple[str, ...], rows: list[Any]) -> str:
    lines = [f"## {title}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [f"`{cell}`" if cell and index < len(row) - 1 else cell for index, cell in enumerate(row)]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| – |"))
    return "\n".join(lines) + "\n"


def asked(python: str) -> dict[str, Any]:
    """The description of the release that an interpreter has."""
    done = subprocess.run(
        [python, __file__, "--describe"], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main(arguments: list[str]) -> int:
    if arguments == ["--describe"]:
        print(json.dumps(describe()))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("old", help="interpreter with the older release")
    parser.add_argument("new", help="interpreter with the newer release")
    parser.add_argument("--output", type=Path, help="the page to write (standard output)")
    options = parser.parse_args(arguments)
    text = page(asked(options.old), asked(options.new))
    if options.output:
        options.output.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
