"""Documents with one thing wrong, and what is expected of them.

Every probe is also shown to the official model. Where we mean to differ from it, the difference stands
in DIFFERENCES with its reason; everything else must agree.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import hints
import pydantic
from generate import TOKEN_IDS, UNSIGNED, Maker, Path, Site, limits

UNKNOWN = "zz_unknown"  # a member, literal or tag that nobody has

# A value of every JSON kind, and the ones that lax readers like to convert.
KINDS: dict[str, Any] = {
    "a word": "abc",
    "a number in a string": "12",
    "a truth value in a string": "true",
    "a number": 3,
    "the number 1": 1,
    "a fraction": 1.5,
    "an integral float": 2.0,
    "a truth value": True,
    "an empty list": [],
    "a list of numbers": [3],
    "a list of words": ["a"],
    "a list of both": ["a", 3],
    "an empty object": {},
    "an object": {"zz_member": 1},
}

# Date-times beside RFC 3339; the official model says which of them it reads.
ODD_MOMENTS = [
    "",
    "yesterday",
    "2026-01-02",
    "2026-01-02 03:04:05Z",
    "2026-01-02t03:04:05z",
    "2026-01-02_03:04:05Z",
    "2026-01-02T03:04Z",
    "2026-01-02T03:04:05,5Z",
    "2026-01-02T03:04:05.Z",
    "2026-01-02T03:04:05.1234567Z",
    "2026-01-02T03:04:05+0530",
    "2026-01-02T03:04:05+05",
    "2026-01-02T03:04:05+23:59",
    "2026-01-02T03:04:05+24:00",
    "2026-01-02T03:04:05 Z",
    " 2026-01-02T03:04:05Z",
    "2026-1-2T03:04:05Z",
    "2024-02-29T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-01-02T23:59:60Z",
    "2026-01-02T24:00:00Z",
    "0000-01-01T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-01-02T25:00:00Z",
    "2026-01-02T03:04:05+99:00",
    "2026-01-02T03:04:05Zx",
]
BAD_BASE64 = ["QQ", "Q===", "Q-_Q", "QQ==\n", "QQ=="[:-1], "Q Q=", "QQ==QQ=="]


@dataclass
class Probe:
    """A document to refuse or to accept, and all that is needed to judge the answer."""

    rule: str
    text: str
    model: type[pydantic.BaseModel]
    side: str
    heads: set[str]  # what the path of an error may begin with
    site: Site | None = None
    value: Any = None
    path: Path = ()
    official: pydantic.BaseModel | None = None
    official_error: str = ""
    expected: str = ""  # accept or refuse
    difference: str = ""
    echo: list[tuple[Path, Any]] = field(default_factory=list)  # must come out as it went in
    base: pydantic.BaseModel | None = None  # what the rest of the document means


@dataclass(frozen=True)
class Difference:
    """A place where we differ from the official models on purpose."""

    name: str
    reason: str
    applies: Callable[[Probe], bool]
    expected: str


def _kinds(probe: Probe) -> set[str]:
    return hints.json_kinds(probe.site.annotation) if probe.site else set()


def _is_list_of_strings(probe: Probe) -> bool:
    """Whether an element was changed such that the whole is a list of strings, and that is allowed."""
    site = probe.site
    if site is None or site.field not in site.model.model_fields or not site.pattern.endswith("[]"):
        return False
    whole = hints.arms(site.model.model_fields[site.field].annotation)
    elements = [hints.element(arm) for arm in whole if hints.element(arm) is not None]
    if not any("string" in hints.json_kinds(element) for element in elements):
        return False
    return all(isinstance(item, str) for item in value_at(json.loads(probe.text), probe.path[:-1]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _string_for_scalar(probe: Probe) -> bool:
    kinds = _kinds(probe)
    if not isinstance(probe.value, str) or "string" in kinds or not kinds & {"int", "bool"}:
        return False
    return probe.rule != "non-finite float in a string" and not _is_list_of_strings(probe)


def _strings_for_scalars(probe: Probe) -> bool:
    """The same, one level down: a list of words for a list of numbers."""
    if probe.site is None or not isinstance(probe.value, list):
        return False
    if not any(isinstance(item, str) for item in probe.value):
        return False
    inner = [hints.element(arm) for arm in hints.arms(probe.site.annotation) if hints.element(arm)]
    return bool(inner) and not any("string" in hints.json_kinds(arm) for arm in inner)


def _bool_for_number(probe: Probe) -> bool:
    return isinstance(probe.value, bool) and "bool" not in _kinds(probe) and "int" in _kinds(probe)


def _number_for_bool(probe: Probe) -> bool:
    return _is_number(probe.value) and "bool" in _kinds(probe) and "int" not in _kinds(probe)


def _on_moment(probe: Probe) -> bool:
    return probe.site is not None and any(
        hints.is_datetime(arm) for arm in hints.arms(probe.site.annotation)
    )


def _number_text_for_moment(probe: Probe) -> bool:
    numeric = isinstance(probe.value, str) and re.fullmatch(r"-?\d+(\.\d+)?", probe.value)
    return _on_moment(probe) and bool(numeric)


def _bad_base64(probe: Probe) -> bool:
    if probe.site is None or bytes not in hints.arms(probe.site.annotation):
        return False
    try:
        raw = base64.b64decode(probe.value, validate=True)
    except (TypeError, ValueError):
        return True
    return base64.b64encode(raw).decode() != probe.value


def _rule(name: str) -> Callable[[Probe], bool]:
    return lambda probe: probe.rule == name


DIFFERENCES = [
    Difference(
        "numbers in strings",
        "the official models read numeric strings as numbers; on the wire a string is not a number",
        lambda probe: _string_for_scalar(probe) or _strings_for_scalars(probe),
        "refuse",
    ),
    Difference(
        "bool for number",
        "the official models read true as 1; a truth value is not a number",
        _bool_for_number,
        "refuse",
    ),
    Difference(
        "number for bool",
        "the official models read 0 and 1 as truth values; a number is not a truth value",
        _number_for_bool,
        "refuse",
    ),
    Difference(
        "unix time in a string",
        "the official models read a number in a string as seconds since 1970; a string is not a number",
        _number_text_for_moment,
        "refuse",
    ),
    Difference(
        "strict base64",
        "the official decoder skips characters outside the alphabet; damaged data is refused here",
        _bad_base64,
        "refuse",
    ),
    Difference(
        "sparse indices in pairs",
        "the JSON model takes row pointers without columns; the protobuf path and every reader refuse that",
        lambda probe: probe.rule == "null"
        and probe.site is not None
        and probe.site.field in ("sparse_crow_indices", "sparse_col_indices"),
        "refuse",
    ),
    Difference(
        "64-bit integers",
        "Python integers have no end, integers on the wire have 64 bits",
        _rule("integer beyond 64 bits"),
        "refuse",
    ),
    Difference(
        "32-bit tokens",
        "the JSON models take any integer as a token id, the protobuf path only 32-bit ones",
        _rule("token beyond 32 bits"),
        "refuse",
    ),
    Difference(
        "non-finite words",
        "the official parser takes NaN and Infinity; the official writer refuses them",
        _rule("non-finite word"),
        "refuse",
    ),
    Difference(
        "beyond double",
        "the official parser reads 1e400 as infinity; no client sends it",
        _rule("number beyond double"),
        "refuse",
    ),
    Difference(
        "unknown enumeration value",
        "the official response models refuse values of later releases; here they are kept",
        _rule("unknown enumeration value"),
        "accept",
    ),
    Difference(
        "unknown arm",
        "the official response models refuse arms of later releases; here they are kept as they came",
        _rule("unknown arm"),
        "accept",
    ),
    Difference(
        "strict until 0.30",
        "older billing models refuse unknown members of a response; responses ignore them here",
        lambda probe: probe.side == "response" and probe.rule == "unknown member",
        "accept",
    ),
]  # fmt: skip


def replaced(made: Any, path: Path, value: Any) -> Any:
    """A copy of a document with the value at a path changed."""
    if not path:
        return value
    made = copy.copy(made)
    made[path[0]] = replaced(made[path[0]], path[1:], value)
    return made


def value_at(made: Any, path: Path) -> Any:
    for key in path:
        made = made[key]
    return made


def removed(made: Any, path: Path) -> Any:
    """A copy of a document without the member at a path."""
    parent = dict(value_at(made, path[:-1]))
    del parent[path[-1]]
    return replaced(made, path[:-1], parent)


def is_open(site: Site) -> bool:
    """An object whose unknown members the official response model keeps: an optimizer family."""
    return bool(site.path) and site.model.__name__ == "AdamOptimizerConfig"


class Prober:
    """Makes the probes of one type; each kind of mistake once per kind of place."""

    def __init__(self, model: type[pydantic.BaseModel], side: str, maker: Maker) -> None:
        self.model = model
        self.side = side
        self.maker = maker
        self.seen: set[tuple[Any, ...]] = set()

    def probes(self, documents: int = 24) -> Iterator[Probe]:
        """All probes of the type. Many base documents, so that every arm of every union is met."""
        for _ in range(documents):
            made, sites = self.maker.make(self.model, full=True)
            for site in sites:
                yield from self.at_site(made, site)
            if self.side == "response":
                yield from self.lenient(made, sites)
        yield from self.whole_documents(made)

    def new(self, *key: Any) -> bool:
        fresh = key not in self.seen
        self.seen.add(key)
        return fresh

    def probe(self, rule: str, made: Any, site: Site, value: Any = None, path: Path = ()) -> Probe:
        heads = {str(path[0])} if path else {"$"}
        return Probe(rule, json.dumps(made), self.model, self.side, heads, site, value, path)

    def at_site(self, made: dict, site: Site) -> Iterator[Probe]:
        if site.field is None:
            yield from self.unknown_member(made, site)
            return
        yield from self.missing(made, site)
        for rule, value in self.bad_values(site):
            if not self.new(site.model.__name__, site.pattern, rule, repr(value)):
                continue
            probe = self.probe(rule, replaced(made, site.path, value), site, value, site.path)
            if rule == "integer beyond 64 bits":
                probe.heads.add("$")  # a parser may not read such a number at all
            yield probe

    def unknown_member(self, made: dict, site: Site) -> Iterator[Probe]:
        if not self.new(site.model.__name__, site.pattern, "unknown member"):
            return
        path = site.path + (UNKNOWN,)
        extended = value_at(made, site.path) | {UNKNOWN: 1}
        yield self.probe("unknown member", replaced(made, site.path, extended), site, 1, path)

    def missing(self, made: dict, site: Site) -> Iterator[Probe]:
        if not site.required or not site.whole_field:
            return
        if not self.new(site.model.__name__, site.pattern, "missing member"):
            return
        probe = self.probe("missing member", removed(made, site.path), site, None, site.path)
        if site.field == "optim_params":  # it has no name of its own on the wire
            probe.heads = {"$", "optim_params", "adam_params", "optimizer_params"}
        yield probe

    def bad_values(self, site: Site) -> Iterator[tuple[str, Any]]:
        """Values that may be wrong at a place; the official model says which are."""
        if hints.is_free(site.annotation):
            return
        yield "null", None
        for name, value in KINDS.items():
            if not (isinstance(value, str) and self.keeps_strings(site)):
                yield f"wrong kind: {name}", value
        yield from self.bad_literals(site)
        yield from self.out_of_range(site)
        yield from self.bad_texts(site)
        yield from self.bad_arms(site)

    def keeps_strings(self, site: Site) -> bool:
        """Whether an unknown string here is a value or arm of a later release, see lenient()."""
        if self.side != "response":
            return False
        is_tag = site.in_union and site.field == hints.tag_of(site.model)
        return is_tag or len(hints.literals(site.annotation)) > 1

    def bad_literals(self, site: Site) -> Iterator[tuple[str, Any]]:
        allowed = hints.literals(site.annotation)
        if not allowed or self.keeps_strings(site):
            return
        yield "wrong literal", UNKNOWN if isinstance(allowed[0], str) else max(allowed) + 1
        if isinstance(allowed[0], str):
            yield "wrong literal", ""
            yield "wrong literal", allowed[0].swapcase()

    def out_of_range(self, site: Site) -> Iterator[tuple[str, Any]]:
        bounds = limits(site.metadata)
        kinds = hints.json_kinds(site.annotation)
        if "ge" in bounds:
            yield "out of range", bounds["ge"] - 1
        if "le" in bounds:
            yield "out of range", bounds["le"] + 1
        if "lt" in bounds:
            yield "out of range", bounds["lt"]
        if "min_length" in bounds:
            yield "out of range", [] if "list" in kinds else ""
        if "max_length" in bounds:
            yield "out of range", ["urn"] * (bounds["max_length"] + 1)
        if "int" in kinds and "float" not in kinds and not hints.literals(site.annotation):
            tokens = (site.model.__name__, site.field) in TOKEN_IDS
            name = "token beyond 32 bits" if tokens else "integer beyond 64 bits"
            beyond = 2**64 if site.field in UNSIGNED else 2**63
            for value in (2**31, -(2**31) - 1) if tokens else (beyond, 2**64, -(2**63) - 1):
                yield name, value

    def bad_texts(self, site: Site) -> Iterator[tuple[str, Any]]:
        choices = hints.arms(site.annotation)
        if any(hints.is_datetime(arm) for arm in choices):
            for text in ODD_MOMENTS:
                yield "odd date-time", text
        if pydantic.AwareDatetime in choices:
            yield "date-time without offset", "2026-01-02T03:04:05"
        if bytes in choices:
            for text in BAD_BASE64:
                yield "bad base64", text

    def bad_arms(self, site: Site) -> Iterator[tuple[str, Any]]:
        """Objects that look like an arm of a union and are none."""
        names = [arm.__name__ for arm in hints.model_arms(site.annotation)]
        if "OptimizerConfigBase" in names and self.side == "request":
            yield "damaged family", {"type": "dimuon", "version": 2}
            yield "damaged family", {"type": "dimuon", "version": 1, UNKNOWN: 1}
            yield "damaged family", {"type": "adamw", UNKNOWN: 1}
            yield "family without type", {"version": 1}
        if "OptimParamsBase" in names:
            good = {"type": "dimuon", "learning_rate": 0.1}
            yield "damaged family", good | {"beta1": 1.0}
            yield "damaged family", good | {"beta1": -0.5}
            yield "damaged family", good | {"learning_rate": -1.0}
            yield "damaged family", {"type": "dimuon"}
            yield "damaged family", good | {UNKNOWN: 1}
        if len(names) > 1 and hints.is_tagged_union(site.annotation) and self.side == "request":
            yield "unknown tag", {"type": UNKNOWN}

    # What responses must put up with.

    def lenient(self, made: dict, sites: list[Site]) -> Iterator[Probe]:
        base = self.model.model_validate_json(json.dumps(made))
        for site in sites:
            if site.field is None:
                continue
            for rule, value in self.newer_values(site):
                if not self.new(site.model.__name__, site.pattern, rule, repr(value)):
                    continue
                probe = self.probe(rule, replaced(made, site.path, value), site, value, site.path)
                probe.echo = [(site.path, value)]
                if rule != "non-finite float in a string":
                    probe.base = base
                yield probe

    def newer_values(self, site: Site) -> Iterator[tuple[str, Any]]:
        if len(hints.literals(site.annotation)) > 1:
            yield "unknown enumeration value", UNKNOWN
            yield "unknown enumeration value", "späterer \"Wert\"\n"
        if hints.is_tagged_union(site.annotation):
            tag = hints.tag_of(hints.model_arms(site.annotation)[0])
            yield "unknown arm", {tag: UNKNOWN, "a": {"b": [1, 1.0, None, "é"]}, "n": None}
        if hints.is_float(site.annotation):
            for word in ("NaN", "inf", "-inf"):
                yield "non-finite float in a string", word

    # The document as a whole.

    def whole_documents(self, made: dict) -> Iterator[Probe]:
        good = json.dumps(made)
        for text in ("[]", '"text"', "1", "1.5", "true", "null", f"[{good}]"):
            yield Probe("not an object", text, self.model, self.side, {"$"})
        broken = [good + " x", good + good, good + "]", good[:-1], "{", "", "nonsense",
                  "{'a':1}", '{"a":1,}', good[:-1] + ",}"]  # fmt: skip
        for text in broken:
            yield Probe("not one JSON document", text, self.model, self.side, {"$", *made, "a"})
        if "optim_params" in self.model.model_fields:
            rest = {key: made[key] for key in made if not key.endswith("_params")}
            both = rest | {"adam_params": {}, "optimizer_params": {"type": "later"}}
            heads = {"$", "adam_params", "optimizer_params"}
            yield Probe("both parameters", json.dumps(both), self.model, self.side, heads)
        yield from self.bad_words()

    def bad_words(self) -> Iterator[Probe]:
        """Numbers and strings that are no JSON, put into the first fitting member."""
        made, sites = self.maker.make(self.model, full=True)
        for site in sites:
            if site.field is None or not site.path:
                continue
            for rule, word in self.words_for(site):
                if not self.new(site.model.__name__, site.pattern, rule, word):
                    continue
                marker = "@@here@@"
                text = json.dumps(replaced(made, site.path, marker)).replace(f'"{marker}"', word)
                heads = {"$", str(site.path[0])}
                yield Probe(rule, text, self.model, self.side, heads, site, None, site.path)

    def words_for(self, site: Site) -> Iterator[tuple[str, str]]:
        kinds = hints.json_kinds(site.annotation)
        if hints.is_float(site.annotation):
            if self.side == "request":
                for word in ("NaN", "Infinity", "-Infinity"):
                    yield "non-finite word", word
            yield "number beyond double", "1e400"
        if "int" in kinds and not hints.is_free(site.annotation):
            for word in ("01", "+1", "1.", ".5", "0x10", "1e", "--1"):
                yield "malformed number", word
        if str in hints.arms(site.annotation):
            for word in (r'"\ud800"', r'"\x41"', r'"\u12"', '"tab\there"', "'a'"):
                yield "malformed string", word


def judge_official(probe: Probe) -> None:
    """Fill in the official verdict and what is expected of us."""
    try:
        probe.official = probe.model.model_validate_json(probe.text)
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        probe.official_error = " ".join(str(error).split())[:200]
    accepted = probe.official is not None
    probe.expected = "accept" if accepted else "refuse"
    for difference in DIFFERENCES:
        if difference.expected != probe.expected and difference.applies(probe):
            probe.expected, probe.difference = difference.expected, difference.name
            return


def path_problem(probe: Probe, error: str) -> str | None:
    """Why an error text is not `<path>: <what was expected>` with the right head."""
    for head in probe.heads:
        rest = error.removeprefix(head)
        if rest != error and re.match(r"([.\[].*)?: \S", rest, re.DOTALL):
            return None
    return f"the error should begin with one of {sorted(probe.heads)}"
