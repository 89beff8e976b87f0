"""Seeded random documents from the annotations of the official models.

Documents, not instances, are generated: a caller may leave a member out, say null, or write an integer
where a float is meant, and all of that is lost once an instance exists. Every place a value was put is
remembered, so that the refusal probes can change one place at a time.
"""

from __future__ import annotations

import base64
import datetime
import math
import random
import struct
from dataclasses import dataclass
from typing import Any

import hints
import pydantic
from pydantic.fields import FieldInfo

Path = tuple[Any, ...]

STRINGS = [
    "",
    " ",
    "plain",
    'quote " backslash \\ slash /',
    "tab\tnewline\nreturn\r",
    "\x00\x01\x1f\x7f",
    "grün \u00e9 e\u0301",
    "日本語",
    "🎲👩‍🔬",
    "\u2028\u2029\ufeff\uffff",
    "null",
    "1.5",
    "true",
    "tinker://run:train:0/weights/step-10",
    "x" * 300,
]
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 1e-12, 1e-5, 1e-4, 5e-324, 2.2250738585072014e-308,
    1.7976931348623157e308, -1e300, 1e15, 1e16, 1e17, 1e21, 1e22, 123456789.0, float(2**53), 0.95,
]  # fmt: skip
INTS = [0, 1, -1, 7, 255, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)]
INT32S = [0, 1, -1, 7, 50256, 2**31 - 1, -(2**31)]

# Members whose integers are token ids, which are 32-bit everywhere on the wire.
TOKEN_IDS = {("EncodedTextChunk", "tokens"), ("SamplingParams", "stop")}

# Members whose integers are unsigned: any 64-bit seed fits (PROTOBUF 1).
UNSIGNED = {"seed"}

# The event name that belongs to each telemetry event: inside a union it is the only tag there is.
EVENT_NAMES = {
    "SessionStartEvent": "SESSION_START",
    "SessionEndEvent": "SESSION_END",
    "UnhandledExceptionEvent": "UNHANDLED_EXCEPTION",
    "GenericEvent": "GENERIC_EVENT",
}


@dataclass(frozen=True)
class Site:
    """A place in a generated document. Without a field it is a model-level object."""

    path: Path
    pattern: str  # the path with indices and map keys blanked, to tell places of one kind
    model: type[pydantic.BaseModel]
    field: str | None
    annotation: Any
    metadata: tuple[Any, ...] = ()
    required: bool = False
    whole_field: bool = False  # the member itself, not an element of it
    in_union: bool = False  # a member of an arm of a union


def members(model: type[pydantic.BaseModel]) -> dict[str, tuple[str, FieldInfo]]:
    """Field name -> (name in a document, field).

    optim_step's field has three names on input; which one is right depends on the value, so the
    caller chooses for it.
    """
    return {name: (name, field) for name, field in model.model_fields.items()}


def limits(metadata: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    """The numbers of Ge, Gt, Le, Lt, MinLen and MaxLen, by attribute name."""
    found = {}
    for item in metadata:
        for name in ("ge", "gt", "le", "lt", "min_length", "max_length"):
            value = getattr(item, name, None)
            if value is not None:
                found[name] = value
    return found


class Maker:
    """Makes one document after another from one seed."""

    def __init__(self, seed: str, drop_null_family_members: bool = False) -> None:
        self.rng = random.Random(seed)
        self.full = False
        self.sites: list[Site] = []
        self.drop_null_family_members = drop_null_family_members

    def make(self, model: type[pydantic.BaseModel], full: bool = False) -> tuple[dict, list[Site]]:
        """A document and its places; `full` leaves nothing out and no list empty."""
        self.full = full
        self.sites = []
        return self.document(model, (), "", in_union=False), self.sites

    # Values of each kind.

    def string(self, bounds: dict[str, Any]) -> str:
        rng = self.rng
        if rng.random() < 0.5:
            text = rng.choice(STRINGS)
        else:
            alphabet = "abcXYZ019 _-:/.\"\\\n\té漢🎈"
            text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(24)))
        return text if len(text) >= bounds.get("min_length", 0) else text + "s"

    def integer(self, bounds: dict[str, Any], tokens: bool, unsigned: bool = False) -> int:
        low = bounds.get("ge", -(2**31) if tokens else -(2**63))
        high = bounds.get("le", 2**31 - 1 if tokens else 2 ** (64 if unsigned else 63) - 1)
        pool = [n for n in (INT32S if tokens else INTS) if low <= n <= high] + [low, high]
        if self.rng.random() < 0.5:
            return self.rng.choice(pool)
        if self.rng.random() < 0.7 and low <= 0 and high >= 100_000:
            return self.rng.randrange(100_000)
        return self.rng.randint(low, high)

    def random_double(self) -> float:
        while True:
            (number,) = struct.unpack("<d", self.rng.randbytes(8))
            if math.isfinite(number):
                return number

    def floating(self, bounds: dict[str, Any]) -> float | int:
        low, high = bounds.get("ge", -math.inf), bounds.get("lt", math.inf)
        pool = [number for number in FLOATS if low <= number < high]
        choice = self.rng.random()
        if choice < 0.45:
            return self.rng.choice(pool)
        if choice < 0.6 and high > 3:
            return self.rng.randrange(int(max(low, -50)), 50)  # an integer where a float is meant
        if choice < 0.75 and "ge" not in bounds:
            return self.random_double()
        return self.rng.uniform(max(low, -10.0), min(high, 10.0))

    def moment(self, aware: bool) -> str:
        """A date-time text: naive, UTC or with an offset; with and without a fraction."""
        rng = self.rng
        year = rng.choice([1, 1969, 1970, 2000, 2024, 2026, 9998, rng.randrange(1900, 2200)])
        base = datetime.datetime(year, 1, 1) + datetime.timedelta(
            days=rng.randrange(365), seconds=rng.randrange(86400)
        )
        text = base.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
        if rng.random() < 0.6:
            digits = rng.choice([6, 6, 6, rng.randrange(1, 7), 9])
            text += "." + "".join(rng.choice("0123456789") for _ in range(digits))
        minutes = rng.choice([60, 330, 345, -480, 1439, -1439, rng.randrange(-1439, 1440)])
        offset = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
        suffixes = ["Z", "Z", "+00:00", offset, offset] + ([] if aware else ["", ""])
        return text + rng.choice(suffixes)

    def free(self, depth: int = 0) -> Any:
        """Any JSON value, nested a few levels, nulls included."""
        rng = self.rng
        kind = rng.randrange(6 if depth >= 3 else 8)
        if kind == 0:
            return None
        if kind == 1:
            return rng.random() < 0.5
        if kind == 2:
            return self.integer({}, tokens=False)
        if kind == 3:
            return rng.choice(FLOATS) if rng.random() < 0.5 else self.random_double()
        if kind in (4, 5):
            return self.string({})
        if kind == 6:
            return [self.free(depth + 1) for _ in range(rng.randrange(4))]
        return {self.string({}): self.free(depth + 1) for _ in range(rng.randrange(4))}

    # Structures.

    def remember(self, site: Site) -> None:
        self.sites.append(site)

    def document(
        self, model: type[pydantic.BaseModel], path: Path, pattern: str, in_union: bool
    ) -> dict:
        """A JSON object for a model."""
        special = getattr(self, f"_make_{model.__name__}", None)
        if special is not None:
            return special(model, path, pattern)
        self.remember(Site(path, pattern, model, None, model))
        made = {}
        for name, (key, field) in members(model).items():
            if self.left_out(model, name, field, in_union):
                continue
            made[key] = self.member(model, name, field, path + (key,), f"{pattern}.{key}", in_union)
        return made

    def left_out(
        self, model: type[pydantic.BaseModel], name: str, field: FieldInfo, in_union: bool
    ) -> bool:
        if field.is_required() or (in_union and name == hints.tag_of(model)):
            return False
        return not self.full and self.rng.random() < 0.35

    def member(
        self,
        model: type[pydantic.BaseModel],
        name: str,
        field: FieldInfo,
        path: Path,
        pattern: str,
        in_union: bool,
    ) -> Any:
        """The value of one member."""
        self.remember(
            Site(path, pattern, model, name, field.annotation, tuple(field.metadata),
                 field.is_required(), whole_field=True, in_union=in_union)
        )  # fmt: skip
        if in_union and name == "event" and model.__name__ in EVENT_NAMES:
            return EVENT_NAMES[model.__name__]
        return self.value(field.annotation, list(field.metadata), path, pattern, model, name)

    def value(
        self,
        annotation: Any,
        metadata: list[Any],
        path: Path,
        pattern: str,
        model: type[pydantic.BaseModel],
        name: str,
    ) -> Any:
        """A value for an annotation."""
        bare, more = hints.unwrap(annotation)
        bounds = limits(metadata + more)
        choices = hints.arms(bare)
        if hints.NONE in choices:
            if not self.full and self.rng.random() < 0.3:
                return None
            choices = [arm for arm in choices if arm is not hints.NONE]
        arm = self.rng.choice(choices)
        if hints.is_model(arm):
            return self.document(arm, path, pattern, in_union=len(choices) > 1)
        return self.plain(arm, bounds, path, pattern, model, name)

    def plain(
        self,
        arm: Any,
        bounds: dict[str, Any],
        path: Path,
        pattern: str,
        model: type[pydantic.BaseModel],
        name: str,
    ) -> Any:
        """A value that is not an object of a model."""
        if allowed := hints.literals(arm):
            return self.rng.choice(allowed)
        if hints.is_datetime(arm):
            return self.moment(aware=arm is pydantic.AwareDatetime)
        if hints.is_free(arm):
            return self.free()
        if (inner := hints.element(arm)) is not None:
            return self.items(inner, bounds, path, pattern, model, name)
        if (inner := hints.mapped(arm)) is not None:
            return self.mapping(inner, path, pattern, model, name)
        makers = {
            bool: lambda: self.rng.random() < 0.5,
            int: lambda: self.integer(bounds, (model.__name__, name) in TOKEN_IDS, name in UNSIGNED),
            float: lambda: self.floating(bounds),
            str: lambda: self.string(bounds),
            bytes: lambda: base64.b64encode(self.rng.randbytes(self.rng.randrange(40))).decode(),
        }
        return makers[arm]()

    def length(self, bounds: dict[str, Any]) -> int:
        low = max(bounds.get("min_length", 0), 1 if self.full else 0)
        return self.rng.randint(low, min(bounds.get("max_length", 4), 4))

    def items(
        self,
        inner: Any,
        bounds: dict[str, Any],
        path: Path,
        pattern: str,
        model: type[pydantic.BaseModel],
        name: str,
    ) -> list:
        """A list, each element a place of its own."""
        made = []
        for index in range(self.length(bounds)):
            place, shape = path + (index,), pattern + "[]"
            self.remember(Site(place, shape, model, name, inner))
            made.append(self.value(inner, [], place, shape, model, name))
        return made

    def mapping(
        self, inner: Any, path: Path, pattern: str, model: type[pydantic.BaseModel], name: str
    ) -> dict:
        """An object with free keys, each value a place of its own."""
        made = {}
        for _ in range(self.length({})):
            key = self.string({})
            if key in made:
                continue
            place, shape = path + (key,), pattern + "{}"
            self.remember(Site(place, shape, model, name, inner))
            made[key] = self.value(inner, [], place, shape, model, name)
        return made

    # Models whose annotations say less than the protocol does.

    def family_members(self) -> dict:
        """What an optimizer family of some later release might carry."""
        family = {"type": "later-" + self.string({})}
        for number in range(self.rng.randrange(4)):
            value = self.free()
            if value is not None or not self.drop_null_family_members:
                family[f"setting_{number}"] = value
        return family

    def _make_OptimizerConfigBase(self, model: Any, path: Path, pattern: str) -> dict:
        """Dimuon, or a family nobody knows yet."""
        if self.rng.random() < 0.5:
            return {"type": "dimuon", "version": 1}
        return self.family_members()

    def _make_OptimParamsBase(self, model: Any, path: Path, pattern: str) -> dict:
        """Dimuon's parameters, or those of a family nobody knows yet."""
        if self.rng.random() < 0.5:
            return self.family_members()
        made = {"type": "dimuon", "learning_rate": abs(self.floating({"ge": 0}))}
        if self.full or self.rng.random() < 0.5:
            made["grad_clip_norm"] = self.floating({})
        if self.full or self.rng.random() < 0.5:
            made["beta1"] = self.floating({"ge": 0, "lt": 1})
        return made

    def _make_OptimStepRequest(self, model: Any, path: Path, pattern: str) -> dict:
        """The parameters go under a name that depends on the family (PROTOCOL 7.13)."""
        self.remember(Site(path, pattern, model, None, model))
        made = {}
        for name, field in model.model_fields.items():
            if self.left_out(model, name, field, in_union=False):
                continue
            key = name
            if name == "optim_params":
                key = self.rng.choice(["adam_params", "optimizer_params"])
                field = _with_arm(field, 0 if key == "adam_params" else 1)
            place = path + (key,)
            made[key] = self.member(model, name, field, place, f"{pattern}.{key}", in_union=False)
        return made

    def _make_TensorData(self, model: Any, path: Path, pattern: str) -> dict:
        """A tensor whose element count, shape and sparse indices fit together."""
        self.remember(Site(path, pattern, model, None, model))
        made = self.tensor()
        for name, field in model.model_fields.items():
            if name in made:
                self.remember(
                    Site(path + (name,), f"{pattern}.{name}", model, name, field.annotation,
                         tuple(field.metadata), field.is_required(), whole_field=True)
                )  # fmt: skip
        return made

    def tensor(self) -> dict:
        rng = self.rng
        dtype = rng.choice(["int64", "float32"])
        if rng.random() < 0.3:
            return self.sparse_tensor(dtype)
        shape = rng.choice([None, [], [0], [0, 3], [1], [rng.randrange(5)], [2, 3], [1, 2, 2]])
        count = rng.randrange(5) if shape is None else math.prod(shape)
        made = {"data": [self.number(dtype) for _ in range(count)], "dtype": dtype}
        if shape is not None or rng.random() < 0.5:
            made["shape"] = shape
        if not self.full and rng.random() < 0.3:
            made["sparse_crow_indices"] = None
        return made

    def sparse_tensor(self, dtype: str) -> dict:
        rows, columns = self.rng.randrange(1, 4), self.rng.randrange(1, 5)
        crow, col = [0], []
        for _ in range(rows):
            picked = sorted(self.rng.sample(range(columns), self.rng.randrange(columns + 1)))
            col += picked
            crow.append(len(col))
        return {
            "data": [self.number(dtype) for _ in col],
            "dtype": dtype,
            "shape": [rows, columns],
            "sparse_crow_indices": crow,
            "sparse_col_indices": col,
        }

    def number(self, dtype: str) -> int | float:
        """A tensor element; floats stay within float32's range."""
        if dtype == "int64":
            return self.integer({}, tokens=False)
        pool = [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 1e-12, 1e-45, 3.4028234663852886e38, 16777217.0]
        return self.rng.choice(pool) if self.rng.random() < 0.5 else self.rng.uniform(-9, 9)


def _with_arm(field: FieldInfo, index: int) -> FieldInfo:
    """The same field, narrowed to one arm of its union."""
    bare, _ = hints.unwrap(field.annotation)
    narrowed = FieldInfo(annotation=hints.arms(bare)[index])
    return narrowed


def minimal(model: type[pydantic.BaseModel], maker: Maker) -> dict:
    """Only what is required, at the top and inside required members."""
    made, _ = maker.make(model, full=True)
    return _required_only(model, made)


def _required_only(model: type[pydantic.BaseModel], made: dict) -> dict:
    kept = {}
    for name, field in model.model_fields.items():
        if not field.is_required() or name not in made:
            continue
        value = made[name]
        if hints.is_model(field.annotation) and isinstance(value, dict):
            value = _required_only(field.annotation, value)
        kept[name] = value
    for name in ("adam_params", "optimizer_params"):
        if name in made and name not in kept and "optim_params" in model.model_fields:
            kept[name] = made[name]
    return kept
