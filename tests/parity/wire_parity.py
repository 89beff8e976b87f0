"""Executed parity: every wire type of `tinker wire` against the official Python package.

    python wire_parity.py --tinker build/bin/tinker [--count 200] [--seed 1] [--type NAME ...]

Run it with the Python of a virtual environment that has the official package; the release installed
there is the one compared with. One line per type, then the total; exit status 1 when anything differs.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import sys
from dataclasses import dataclass, field

import catalogue
from catalogue import WireType
from json_checks import Job, JsonChecks, error_text
from protobuf_checks import ProtoChecks, answer_bytes
from tool import Tool, ToolError

SHOWN = 5  # failures shown per type
WIDTH = 600  # characters shown of each document


@dataclass
class Failure:
    check: str
    why: str
    sent: str = ""
    ours: str = ""
    official: str = ""


@dataclass
class TypeReport:
    """What came of one type: the checks made, the failures among them, and the counts."""

    row: WireType
    checks: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    instances: int = 0
    refusals: int = 0

    def failed(self) -> set[str]:
        return {failure.check for failure in self.failures}

    def line(self) -> str:
        verdict = f"FAILED ({', '.join(sorted(self.failed()))})" if self.failures else "ok"
        return (
            f"{self.row.name:<44}{self.row.kind:<10}{self.row.encoding:<7}"
            f"{self.instances:>6} instances  {self.refusals:>5} refusals  {verdict}"
        )

    def details(self) -> str:
        shown = []
        for failure in self.failures[:SHOWN]:
            shown.append(f"    {failure.check}: {failure.why}")
            texts = {"sent": failure.sent, "ours": failure.ours, "official": failure.official}
            for label, text in texts.items():
                if text:
                    shown.append(f"      {label + ':':<10}{cut(text)}")
        if len(self.failures) > SHOWN:
            shown.append(f"    and {len(self.failures) - SHOWN} more")
        return "\n".join(shown)


def cut(text: str) -> str:
    flat = " ".join(text.split("\n"))
    return flat if len(flat) <= WIDTH else f"{flat[:WIDTH]}… ({len(flat)} characters)"


class Parity:
    """One run over all types."""

    def __init__(self, tool: Tool, seed: int, count: int) -> None:
        self.tool = tool
        self.seed = seed
        self.count = count
        self.official = catalogue.official_classes()
        self.differences: dict[str, int] = {}

    def check_type(self, row: WireType) -> TypeReport:
        report = TypeReport(row)
        if row.encoding in ("json", "both"):
            self.check_json(row, report)
        if row.encoding in ("proto", "both"):
            for flags, jobs in ProtoChecks(row, self.seed, self.count).groups():
                self.run_jobs(report, flags, list(jobs))
        return report

    def check_json(self, row: WireType, report: TypeReport) -> None:
        checks = JsonChecks(row, self.official[row.name], self.seed, self.count)
        self.run_jobs(report, (), list(checks.jobs()))
        for name, number in checks.differences.items():
            self.differences[name] = self.differences.get(name, 0) + number

    def run_jobs(self, report: TypeReport, flags: tuple[str, ...], jobs: list[Job]) -> None:
        """All lines through one process, then the judgements."""
        report.checks |= {job.check for job in jobs} | {"line mode"}
        try:
            answers = self.tool.lines(report.row.name, flags, [job.line for job in jobs])
        except (ToolError, UnicodeDecodeError) as error:
            report.failures.append(Failure("line mode", str(error)))
            return
        for job, answer in zip(jobs, answers):
            if job.check in ("refusals", "leniency"):
                report.refusals += 1
            else:
                report.instances += 1
            if problem := self.judged(job, answer):
                report.failures.append(Failure(job.check, problem, job.line, answer, job.official))
        self.check_single(report, flags, jobs, answers)

    def judged(self, job: Job, answer: str) -> str | None:
        try:
            return job.judge(answer)
        except Exception as error:  # an answer so odd that the judge cannot read it
            return f"cannot be judged: {type(error).__name__}: {error}"

    def check_single(
        self, report: TypeReport, flags: tuple[str, ...], jobs: list[Job], answers: list[str]
    ) -> None:
        """Without --lines: the same document, and a refusal by exit status and standard error."""
        report.checks.add("single document")
        done = list(zip(jobs, answers))
        good = next((pair for pair in done if error_text(pair[1]) is None), None)
        bad = next((p for p in done if error_text(p[1]) is not None and p[0].line != "not base64!"), None)
        for pair in (good, bad):
            if pair is not None and (problem := self.single_problem(report.row, flags, *pair)):
                report.failures.append(Failure("single document", problem, pair[0].line, pair[1]))

    def single_problem(
        self, row: WireType, flags: tuple[str, ...], job: Job, answer: str
    ) -> str | None:
        from_proto = "proto" in flags[:2] if flags else row.encoding == "proto"
        to_proto = "proto" in flags[2:] if flags else row.encoding == "proto"
        data = answer_bytes(job.line) if from_proto else job.line.encode()
        status, output, error = self.tool.single(row.name, flags, data)
        refusal = error_text(answer)
        if refusal is not None:
            if (status, output, error.strip()) == (1, b"", refusal.strip()):
                return None
            return f"refused with status {status}, output {output[:80]!r}, error {error[:200]!r}"
        if status != 0:
            return f"status {status}, error {error[:200]!r}"
        text = base64.b64encode(output).decode() if to_proto else output.decode().removesuffix("\n")
        return self.judged(job, text)


def list_report(tool: Tool) -> TypeReport:
    """The list of types itself counts as one check."""
    report = TypeReport(WireType("(list)", "-", "-", "-"), {"list", "coverage"})
    for problem in catalogue.list_problems(tool.listing()):
        report.failures.append(Failure("list", problem))
    for name in catalogue.uncovered_classes():
        report.failures.append(Failure("coverage", f"the official class {name} is not in the table"))
    unknown = tool.run(["no_such_type"], b"{}")
    if unknown.returncode == 0 or unknown.stdout:
        report.failures.append(Failure("list", "an unknown type is accepted"))
    return report


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tinker", required=True, help="the command under test")
    parser.add_argument("--count", type=int, default=200, help="instances per type (200)")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (1)")
    parser.add_argument("--type", action="append", default=[], metavar="NAME", help="only this type")
    return parser.parse_args(arguments)


def selected(names: list[str]) -> list[WireType]:
    table = catalogue.wire_types()
    unknown = [name for name in names if name not in table]
    if unknown:
        raise SystemExit(f"unknown type: {', '.join(unknown)}")
    return [table[name] for name in names] if names else list(table.values())


def run(tool: Tool, seed: int, count: int, names: list[str]) -> tuple[int, int]:
    """Check and print; the numbers of passed and failed units (one unit is one type and one check)."""
    parity = Parity(tool, seed, count)
    release = importlib.metadata.version("tinker")
    print(f"official tinker {release}, seed {seed}, {count} instances per type")
    skipped = [row.name for row in selected(names) if row.name not in parity.official]
    passed = failed = 0
    reports = [list_report(tool)] if not names else []
    for report in reports:
        print(report.line())
    for row in selected(names):
        if row.name in skipped:
            continue
        reports.append(parity.check_type(row))
        print(reports[-1].line(), flush=True)
    for report in reports:
        passed += len(report.checks - report.failed())
        failed += len(report.failed())
        if report.failures:
            print(f"\n{report.row.name}\n{report.details()}")
    print_notes(release, skipped, parity.differences)
    print(f"{passed} passed, {failed} failed")
    return passed, failed


def print_notes(release: str, skipped: list[str], differences: dict[str, int]) -> None:
    if skipped:
        print(f"\nnot in {release}, skipped ({len(skipped)}): {', '.join(skipped)}")
    if differences:
        met = ", ".join(f"{name} {number}" for name, number in sorted(differences.items()))
        print(f"\ndeliberate differences met: {met}\n")


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    _, failed = run(Tool(options.tinker), options.seed, options.count, options.type)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
