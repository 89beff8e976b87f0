"""The checks of one JSON type: what is sent to the tool and how its answer is judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hints
import compare
import probes
import pydantic
from catalogue import WireType
from generate import Maker, minimal

Judge = Callable[[str], str | None]


@dataclass
class Job:
    """One line for the tool; `judge` says what is wrong with the answer, None when nothing is."""

    check: str
    line: str
    judge: Judge
    official: str = ""


def error_text(answer: str) -> str | None:
    """The error of a refusal line, None for a document."""
    try:
        made = json.loads(answer)
    except ValueError:
        return None
    if isinstance(made, dict) and made.keys() == {"error"} and isinstance(made["error"], str):
        return made["error"]
    return None




def _written(maker: Maker, made: Any) -> str:
    """The document as some writer might put it: compact or not, escaped or not."""
    separators = maker.rng.choice([(",", ":"), (", ", ": ")])
    return json.dumps(made, ensure_ascii=maker.rng.random() < 0.5, separators=separators)


class JsonChecks:
    """All jobs of one type."""

    def __init__(
        self, row: WireType, model: type[pydantic.BaseModel], seed: int, count: int
    ) -> None:
        self.row = row
        self.model = model
        self.count = count
        self.seed = f"{seed}/{row.name}"
        self.differences: dict[str, int] = {}

    def maker(self, purpose: str) -> Maker:
        response = self.row.side == "response"
        return Maker(f"{self.seed}/{purpose}", drop_null_family_members=response)

    def jobs(self) -> Iterator[Job]:
        if self.row.side == "request":
            yield from self.request_instances()
        else:
            yield from self.response_instances()
        yield from self.defaults()
        yield from self.probe_jobs()
        if self.row.name == "try_again_response":
            yield from self.queue_state_reason()
        yield from self.untagged_arms()

    # Instances.

    def request_instances(self) -> Iterator[Job]:
        """Each document as a caller might write it, and as the official client would send it."""
        maker = self.maker("instances")
        for number in range(self.count):
            made, _ = maker.make(self.model, full=number % 4 == 0)
            instance = compare.official_instance(self.model, json.dumps(made))
            # The official client omits a required member that is null, and its own model refuses what it sent then.
            # The strict reader follows the model, the lenient one the client (unit tests), so here the null is sent.
            dump = compare.with_required_nulls(self.model, compare.official_dump(instance))
            official = json.dumps(dump, ensure_ascii=False)
            yield Job("instances", _written(maker, made), self.request_judge(instance), official)
            yield Job("instances", official, self.request_judge(instance, exact=True), official)

    def request_judge(self, instance: pydantic.BaseModel, exact: bool = False) -> Judge:
        """`exact` when the document was the official dump: then every text must come back too."""

        def judge(answer: str) -> str | None:
            if (refusal := error_text(answer)) is not None:
                return f"refused: {refusal}"
            try:
                made = compare.parse_tokens(answer)
            except ValueError as error:
                return f"not JSON: {error}"
            return self.request_problem(instance, exact, made)

        return judge

    def request_problem(self, instance: Any, exact: bool, made: Any) -> str | None:
        problem = compare.form_problem(self.model, made)
        problem = problem or compare.meaning_problem(self.model, instance, made)
        if problem:
            return problem
        dump = compare.with_float_defaults(self.model, compare.official_dump(instance))
        older = compare.without_newer_members(self.model, made)
        compared = compare.same_document if exact else compare.same_members
        return compared(dump, older)

    def response_instances(self) -> Iterator[Job]:
        """Each instance as the official model dumps it, in full and without nulls, and with additions."""
        maker = self.maker("instances")
        for number in range(self.count):
            made, sites = maker.make(self.model, full=number % 4 == 0)
            instance = self.model.model_validate_json(json.dumps(made))
            full = instance.model_dump_json()
            short = json.dumps(compare.official_dump(instance), ensure_ascii=False)
            judge = self.response_judge(instance)
            yield Job("instances", _written(maker, made), judge, full)
            yield Job("instances", full, judge, full)
            yield Job("without nulls", short, judge, full)
            extended = self.with_unknown_members(maker, made, sites)
            yield Job("unknown members", _written(maker, extended), judge, full)

    def with_unknown_members(self, maker: Maker, made: Any, sites: list[Any]) -> Any:
        objects = [site for site in sites if site.field is None and not probes.is_open(site)]
        for site in reversed(objects):
            name = "zz_" + maker.rng.choice(["later", "größer", "", "a b"])
            extended = {name: maker.free()} | probes.value_at(made, site.path) | {"zz": maker.free()}
            made = probes.replaced(made, site.path, extended)
        return made

    def response_judge(self, instance: pydantic.BaseModel) -> Judge:
        def judge(answer: str) -> str | None:
            if error_text(answer) is not None:
                return f"refused: {error_text(answer)}"
            try:
                made = compare.parse_tokens(answer)
            except ValueError as error:
                return f"not JSON: {error}"
            return compare.meaning_problem(self.model, instance, made) or self.stray(made)

        return judge

    def stray(self, made: dict) -> str | None:
        """Our own output carries nothing that the newest official model does not know."""
        known = self.model.model_fields.keys()
        strangers = [name for name in made if name.startswith("zz") and name not in known]
        return f"unknown members came out again: {strangers}" if strangers else None

    # Defaults.

    def defaults(self) -> Iterator[Job]:
        maker = self.maker("defaults")
        for _ in range(max(3, self.count // 20)):
            made = minimal(self.model, maker)
            instance = compare.official_instance(self.model, json.dumps(made))
            official = json.dumps(compare.official_dump(instance))
            yield Job("defaults", json.dumps(made), self.default_judge(instance), official)

    def default_judge(self, instance: pydantic.BaseModel) -> Judge:
        """The defaults must be written out, not merely be the same when left out."""
        request = self.row.side == "request"
        judge_meaning = self.request_judge(instance) if request else self.response_judge(instance)

        def judge(answer: str) -> str | None:
            if problem := judge_meaning(answer):
                return problem
            made = json.loads(answer)
            for name, field in self.model.model_fields.items():
                if not field.is_required() and getattr(instance, name) is not None and name not in made:
                    return f"the default of {name} is not written"
            return None

        return judge

    # Probes.

    def probe_jobs(self) -> Iterator[Job]:
        prober = probes.Prober(self.model, self.row.side, self.maker("probes"))
        for probe in prober.probes():
            probes.judge_official(probe)
            if probe.difference:
                self.differences[probe.difference] = self.differences.get(probe.difference, 0) + 1
            verdict = f"{probe.rule}; official: {probe.official_error or 'accepts'}"
            verdict += f"; expected: {probe.expected}"
            verdict += f" ({probe.difference})" if probe.difference else ""
            check = "leniency" if probe.echo else "refusals"
            yield Job(check, probe.text, self.probe_judge(probe), verdict)

    def probe_judge(self, probe: probes.Probe) -> Judge:
        def judge(answer: str) -> str | None:
            refusal = error_text(answer)
            if refusal is not None:
                if probe.expected == "accept":
                    return f"refused: {refusal}"
                return probes.path_problem(probe, refusal)
            if probe.expected == "refuse":
                return "accepted"
            return self.accepted_problem(probe, answer)

        return judge

    def accepted_problem(self, probe: probes.Probe, answer: str) -> str | None:
        """What is wrong with the document made from an accepted probe."""
        try:
            made = compare.parse_tokens(answer)
        except ValueError as error:
            return f"not JSON: {error}"
        for path, value in probe.echo:
            try:
                ours = compare.plain(probes.value_at(made, path))
            except (KeyError, IndexError, TypeError):
                return f"{path} is not there"
            if compare.canonical(ours) != compare.canonical(value):
                return f"{path} should come out as {value!r}, is {ours!r}"
        if probe.base is not None:
            return self.base_problem(probe, made)
        if probe.official is None:
            return None
        instance = compare.with_known_families(probe.official)
        if self.row.side == "request":
            return self.request_problem(instance, False, made)
        return compare.meaning_problem(self.model, instance, made) or self.stray(made)

    def base_problem(self, probe: probes.Probe, made: Any) -> str | None:
        """The rest of a document with a value of a later release in it means what it meant."""
        base = json.loads(probe.base.model_dump_json())  # type: ignore[union-attr]
        for path, _ in probe.echo:
            made = probes.replaced(made, path, probes.value_at(base, path))
        problem = compare.meaning_problem(self.model, probe.base, made)  # type: ignore[arg-type]
        return problem or self.stray(made)

    # Special cases of single types.

    def queue_state_reason(self) -> Iterator[Job]:
        """The one member the official model does not have and clients read all the same."""
        base = {"type": "try_again", "request_id": "r", "queue_state": "paused_capacity"}
        for reason in ("waiting for GPUs", "", 'é "x"'):

            def judge(answer: str, reason: str = reason) -> str | None:
                ours = json.loads(answer).get("queue_state_reason")
                return None if ours == reason else f"queue_state_reason is {ours!r}"

            yield Job("reason kept", json.dumps(base | {"queue_state_reason": reason}), judge)

    def untagged_arms(self) -> Iterator[Job]:
        """An arm without its tag is still read when the official union reads it (PROTOCOL 7.3)."""
        if self.row.side != "request":
            return
        maker = self.maker("untagged")
        seen = set()
        for _ in range(24):
            made, sites = maker.make(self.model, full=True)
            for site in sites:
                tag = hints.tag_of(site.model) if site.in_union else None
                if tag is None or site.field != tag or site.pattern + site.model.__name__ in seen:
                    continue
                seen.add(site.pattern + site.model.__name__)
                yield from self.untagged(probes.removed(made, site.path))

    def untagged(self, made: dict) -> Iterator[Job]:
        text = json.dumps(made)
        try:
            instance = compare.official_instance(self.model, text)
        except pydantic.ValidationError:
            return
        dump = compare.official_dump(instance)
        yield Job("untagged arms", text, self.request_judge(instance), json.dumps(dump))
