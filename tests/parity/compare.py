"""Exact comparison of official instances and of the documents we write.

Python's own equality is too kind here: 1 == 1.0 == True, 0.0 == -0.0, and two date-times with different
offsets can be equal. `canonical` keeps all of these apart.
"""

from __future__ import annotations

import datetime
import enum
import json
import re
from typing import Any

import hints
import numpy as np
import pydantic

# Models whose members depend on a `type` the official union does not tell apart (PROTOCOL 7.12, 7.13):
# the class that holds them says nothing, the members do.
FAMILY_BASES = ("OptimizerConfigBase", "OptimParamsBase")

# Request members that 0.36.0 always sends and 0.25.0 does not know, with the value that means "off".
NEWER_MEMBERS: dict[str, dict[str, Any]] = {
    "CreateModelRequest": {"optimizer_config": {"type": "adamw"}},
    "SampleRequest": {"topk_sample_logprobs": 0, "prompt_alt_tokens_k": 0},
}

DATETIME_TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?\Z")


class Token(str):
    """The text of a JSON number, kept so that `1` and `1.0` can be told apart."""

    is_float: bool

    @classmethod
    def integer(cls, text: str) -> Token:
        token = cls(text)
        token.is_float = False
        return token

    @classmethod
    def floating(cls, text: str) -> Token:
        token = cls(text)
        token.is_float = True
        return token


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def parse_tokens(text: str) -> Any:
    """JSON with numbers as tokens; NaN, Infinity and repeated names are errors."""
    return json.loads(
        text,
        parse_int=Token.integer,
        parse_float=Token.floating,
        parse_constant=_refuse_constant,
        object_pairs_hook=_unique,
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError(f"a name is repeated in {[name for name, _ in pairs]}")
    return made


def plain(value: Any) -> Any:
    """Tokens back to Python numbers."""
    if isinstance(value, Token):
        return float(value) if value.is_float else int(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def canonical(value: Any) -> Any:
    """A form in which == means: the same meaning, the same kind, the same sign and the same offset."""
    if isinstance(value, pydantic.BaseModel):
        return _canonical_model(value)
    if isinstance(value, enum.Enum):
        return ("string", value.value)
    if isinstance(value, datetime.datetime):
        offset = value.utcoffset()
        return ("datetime", value.replace(tzinfo=None).isoformat(), offset and offset.total_seconds())
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, bytes):
        return ("bytes", value.hex())
    return (hints.json_kind(value), repr(value))


def _canonical_model(value: pydantic.BaseModel) -> Any:
    """Null members of an optimizer family are dropped: no client sends them (PROTOCOL 7.13)."""
    model = type(value)
    fields = {}
    for name, field in model.model_fields.items():
        item = getattr(value, name)
        if hints.is_float(field.annotation) and type(item) is int:
            item = float(item)  # an integer default of a float field
        fields[name] = canonical(item)
    if model.__name__ == "TensorData":
        fields["data"] = canonical_elements(value.dtype, value.data)  # type: ignore[attr-defined]
    is_family = any(base.__name__ in FAMILY_BASES for base in model.__mro__)
    extra = value.__pydantic_extra__ or {}
    fields |= canonical({name: item for name, item in extra.items() if item is not None})
    return ("family" if is_family else model.__name__, fields)


def canonical_elements(dtype: str, data: Any) -> Any:
    """Tensor elements at the precision the tensor has."""
    if dtype == "float32":
        return ("float32", np.asarray(data, dtype=np.float32).tobytes().hex())
    return ("int64", [int(item) for item in data])


def official_instance(model: type[pydantic.BaseModel], text: str | bytes) -> pydantic.BaseModel:
    """What the official model makes of a document.

    Its unions read a known optimizer family as the base class with loose members; a caller would have
    used the class of that family, so that class is put in.
    """
    return with_known_families(model.model_validate_json(text))


def with_known_families(instance: pydantic.BaseModel) -> pydantic.BaseModel:
    for name in ("optim_params", "optimizer_config"):
        value = getattr(instance, name, None)
        if type(value).__name__ not in FAMILY_BASES or value.type != "dimuon":
            continue
        import tinker.types.optimizer as optimizer

        known = {"optim_params": "DimuonParams", "optimizer_config": "DimuonOptimizerConfig"}[name]
        try:
            settings = getattr(optimizer, known).model_validate(value.model_dump())
        except pydantic.ValidationError:
            continue  # then it passes as a family nobody knows
        instance = instance.model_copy(update={name: settings})
    return instance


def official_dump(instance: pydantic.BaseModel) -> dict:
    """The body the official client would send: null members dropped at every model level."""
    return instance.model_dump(mode="json", exclude_none=True)


def without_newer_members(model: type[pydantic.BaseModel], made: Any) -> Any:
    """Our document without members that the installed release is too old for."""
    newer = NEWER_MEMBERS.get(model.__name__, {})
    if not isinstance(made, dict):
        return made
    absent = {name: value for name, value in newer.items() if name not in model.model_fields}
    return {
        name: value
        for name, value in made.items()
        if name not in absent or plain(value) != absent[name]
    }


def with_required_nulls(model: type[pydantic.BaseModel], made: Any) -> Any:
    """Our document with null for members that are required but omitted when null."""
    if not isinstance(made, dict):
        return made
    nulls = {
        name: None
        for name, field in model.model_fields.items()
        if field.is_required() and hints.is_nullable(field.annotation) and name not in made
    }
    return made | nulls


def read_back(model: type[pydantic.BaseModel], made: Any) -> pydantic.BaseModel:
    """Our document, read by the official model."""
    made = with_required_nulls(model, without_newer_members(model, made))
    return official_instance(model, json.dumps(plain(made)))


def meaning_problem(
    model: type[pydantic.BaseModel], instance: pydantic.BaseModel, made: Any
) -> str | None:
    """Why our document does not mean the instance; None when it does."""
    try:
        ours = read_back(model, made)
    except (ValueError, RecursionError) as error:
        return f"the official model refuses ours: {' '.join(str(error).split())[:300]}"
    return difference(canonical(instance), canonical(ours))


def difference(expected: Any, ours: Any, path: str = "") -> str | None:
    """The first place where two canonical forms differ."""
    if isinstance(expected, tuple) and isinstance(ours, tuple) and len(expected) == len(ours) == 2:
        if expected[0] == ours[0] and isinstance(expected[1], dict) and isinstance(ours[1], dict):
            return difference(expected[1], ours[1], path)
    if isinstance(expected, dict) and isinstance(ours, dict):
        for key in sorted(expected.keys() | ours.keys()):
            if key not in expected or key not in ours:
                return f"{path}.{key}: only {'ours' if key in ours else 'expected'} has it"
            if found := difference(expected[key], ours[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(expected, list) and isinstance(ours, list) and len(expected) == len(ours):
        for index, (left, right) in enumerate(zip(expected, ours)):
            if found := difference(left, right, f"{path}[{index}]"):
                return found
        return None
    return None if expected == ours else f"{path or '.'}: expected {expected!r}, ours {ours!r}"


# The form of what we write.


def form_problem(annotation: Any, value: Any, path: str = "") -> str | None:
    """Why a request document is not in the form of PROTOCOL 4; None when it is.

    Walks our document beside the annotations: no null member at model level, no member the model does
    not have, numbers in the kind the annotation asks for, date-times in RFC 3339.
    """
    if value is None:
        return f"{path}: null member"
    models = hints.model_arms(annotation)
    if models:
        return _object_form(models, value, path)
    bare, _ = hints.unwrap(annotation)
    for arm in hints.arms(bare):
        if (inner := hints.element(arm)) is not None and isinstance(value, list):
            return _first(_element_form(inner, item, f"{path}[{i}]") for i, item in enumerate(value))
        if (inner := hints.mapped(arm)) is not None and isinstance(value, dict):
            return _first(_element_form(inner, item, f"{path}.{key}") for key, item in value.items())
    return _scalar_form(bare, value, path)


def _first(problems: Any) -> str | None:
    return next((problem for problem in problems if problem), None)


def _element_form(inner: Any, item: Any, path: str) -> str | None:
    return None if hints.is_free(inner) else form_problem(inner, item, path)


def _object_form(models: list[Any], value: Any, path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path}: not an object"
    model = _arm_of(models, value)
    if model is None or model.__name__ in FAMILY_BASES or _is_family(models, model, value):
        return None  # a family we pass through; its meaning is compared elsewhere
    newer = NEWER_MEMBERS.get(model.__name__, {})
    for key, item in value.items():
        name = "optim_params" if key in ("adam_params", "optimizer_params") else key
        field = model.model_fields.get(name) or model.model_fields.get(key)
        if field is None:
            if key in newer:
                continue
            return f"{path}.{key}: the model has no such member"
        if model.__name__ == "TensorData" and key == "data":
            problem = _elements_form(value, f"{path}.data")
        else:
            problem = form_problem(field.annotation, item, f"{path}.{key}")
        if problem:
            return problem
    return None


def _is_family(models: list[Any], model: Any, value: dict) -> bool:
    """An object that bears a known tag and has more members than that family: it passes through."""
    is_open = any(arm.__name__ in FAMILY_BASES for arm in models)
    return is_open and not value.keys() <= model.model_fields.keys()


def _elements_form(tensor: dict, path: str) -> str | None:
    wants_float = tensor.get("dtype") == "float32"
    for item in tensor["data"]:
        if not isinstance(item, Token) or (item.is_float and not wants_float):
            return f"{path}: {item!r} in a {tensor.get('dtype')} tensor"
    return None


def _arm_of(models: list[Any], value: dict) -> Any:
    """The model of a union that an object of ours belongs to."""
    if len(models) == 1:
        return models[0]
    for model in models:
        tag = hints.tag_of(model)
        if tag and value.get(tag) in hints.literals(model.model_fields[tag].annotation):
            return model
    names = {"SESSION_START": "SessionStartEvent", "SESSION_END": "SessionEndEvent",
             "UNHANDLED_EXCEPTION": "UnhandledExceptionEvent", "GENERIC_EVENT": "GenericEvent"}  # fmt: skip
    wanted = names.get(value.get("event", ""))
    if wanted is None and "learning_rate" in value and "type" not in value:
        wanted = "AdamParams"
    return next((model for model in models if model.__name__ == wanted), None)


def _scalar_form(annotation: Any, value: Any, path: str) -> str | None:
    kinds = hints.json_kinds(annotation)
    if isinstance(value, Token):
        if hints.is_float(annotation) and not value.is_float:
            return f"{path}: a float is written as {value}"
        if value.is_float and "float" not in kinds:
            return f"{path}: an integer is written as {value}"
        return None
    if any(hints.is_datetime(arm) for arm in hints.arms(annotation)):
        return None if DATETIME_TEXT.match(value) else f"{path}: {value!r} is no RFC 3339 date-time"
    return None


def same_document(expected: Any, made: Any, path: str = "") -> str | None:
    """Why our document is not the same as a dump of the official model, member by member.

    Numbers must be of the same kind and value; member order does not count. Tensor elements are
    compared elsewhere, at their own precision.
    """
    if isinstance(expected, dict) and isinstance(made, dict):
        if {"dtype", "data"} <= expected.keys():
            expected = {key: item for key, item in expected.items() if key != "data"}
            made = {key: item for key, item in made.items() if key != "data"}
        for key in sorted(expected.keys() | made.keys()):
            if key not in expected or key not in made:
                return f"{path}.{key}: only {'ours' if key in made else 'the official dump'} has it"
            if found := same_document(expected[key], made[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(expected, list) and isinstance(made, list) and len(expected) == len(made):
        return _first(
            same_document(left, right, f"{path}[{index}]")
            for index, (left, right) in enumerate(zip(expected, made))
        )
    if canonical(expected) == canonical(plain(made)):
        return None
    return f"{path or '.'}: expected {expected!r}, ours {made!r}"


def same_members(expected: Any, made: Any, path: str = "") -> str | None:
    """Why our document has other members than the official dump; values are compared elsewhere."""
    if isinstance(expected, dict) and isinstance(made, dict):
        for key in sorted(expected.keys() | made.keys()):
            if key not in expected or key not in made:
                return f"{path}.{key}: only {'ours' if key in made else 'the official dump'} has it"
        return _first(same_members(expected[key], made[key], f"{path}.{key}") for key in expected)
    if isinstance(expected, list) and isinstance(made, list):
        return _first(
            same_members(left, right, f"{path}[{index}]")
            for index, (left, right) in enumerate(zip(expected, made))
        )
    return None


def with_float_defaults(model: type[pydantic.BaseModel], dump: dict) -> dict:
    """A dump whose float members are floats even where the default is written as an integer."""
    for name, field in model.model_fields.items():
        value = dump.get(name)
        if hints.is_float(field.annotation) and type(value) is int:
            dump[name] = float(value)
        elif hints.is_model(field.annotation) and isinstance(value, dict):
            with_float_defaults(field.annotation, value)
    return dump
