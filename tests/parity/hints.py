"""Questions about the type annotations of the official models."""

from __future__ import annotations

import collections.abc
import datetime
import enum
import inspect
import types
import typing
from typing import Any

import pydantic

NONE = type(None)


def unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """The bare annotation and the metadata hung on it with `Annotated`."""
    metadata: list[Any] = []
    while typing.get_origin(annotation) is typing.Annotated:
        annotation, *more = typing.get_args(annotation)
        metadata += more
    return annotation, metadata


def arms(annotation: Any) -> list[Any]:
    """The members of a union, or the annotation alone."""
    bare, _ = unwrap(annotation)
    if typing.get_origin(bare) in (typing.Union, types.UnionType):
        return [arm for member in typing.get_args(bare) for arm in arms(member)]
    return [bare]


def is_model(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, pydantic.BaseModel)


def is_nullable(annotation: Any) -> bool:
    return any(arm in (NONE, Any, object) for arm in arms(annotation))


def literals(annotation: Any) -> list[Any]:
    """The values a Literal or an enumeration allows; empty for anything else."""
    values: list[Any] = []
    for arm in arms(annotation):
        if typing.get_origin(arm) is typing.Literal:
            values += typing.get_args(arm)
        elif inspect.isclass(arm) and issubclass(arm, enum.Enum):
            values += [member.value for member in arm]
    return values


def element(annotation: Any) -> Any:
    """The element annotation of a list or sequence, None for anything else."""
    if typing.get_origin(annotation) in (list, collections.abc.Sequence):
        return typing.get_args(annotation)[0]
    return None


def mapped(annotation: Any) -> Any:
    """The value annotation of a dictionary, None for anything else."""
    if typing.get_origin(annotation) is dict:
        return typing.get_args(annotation)[1]
    return None


def is_datetime(annotation: Any) -> bool:
    bare, _ = unwrap(annotation)
    return bare is datetime.datetime or bare is pydantic.AwareDatetime


def is_free(annotation: Any) -> bool:
    """Any JSON value is allowed."""
    return annotation in (Any, object)


def is_float(annotation: Any) -> bool:
    """A number that is printed as a float whatever the caller gave."""
    kinds = [arm for arm in arms(annotation) if arm is not NONE]
    return kinds == [float]


def json_kinds(annotation: Any) -> set[str]:
    """The JSON kinds that fit the annotation as it stands, without any conversion."""
    kinds: set[str] = set()
    for arm in arms(annotation):
        if is_free(arm):
            kinds |= {"null", "bool", "int", "float", "string", "list", "object"}
        elif arm is NONE:
            kinds.add("null")
        elif arm is bool:
            kinds.add("bool")
        elif arm is int:
            kinds.add("int")
        elif arm is float:
            kinds |= {"int", "float"}
        elif arm in (str, bytes) or is_datetime(arm):
            kinds.add("string")
        elif element(arm) is not None:
            kinds.add("list")
        elif mapped(arm) is not None or is_model(arm):
            kinds.add("object")
        for value in literals(arm):
            kinds.add(json_kind(value))
    return kinds


def json_kind(value: Any) -> str:
    """The JSON kind of a Python value."""
    if value is None:
        return "null"
    for kind, python in (("bool", bool), ("int", int), ("float", float), ("string", str)):
        if isinstance(value, python):
            return kind
    return "list" if isinstance(value, (list, tuple)) else "object"


def tag_of(model: type[pydantic.BaseModel]) -> str | None:
    """The member that tells this arm of a union from the others."""
    for name in ("type", "state"):
        field = model.model_fields.get(name)
        if field is not None and len(literals(field.annotation)) == 1:
            return name
    return None


def model_arms(annotation: Any) -> list[type[pydantic.BaseModel]]:
    return [arm for arm in arms(annotation) if is_model(arm)]


def is_tagged_union(annotation: Any) -> bool:
    """A choice between models that each carry a constant tag."""
    models = model_arms(annotation)
    return len(models) > 1 and all(tag_of(model) for model in models)
