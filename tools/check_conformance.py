#!/usr/bin/env python3
"""Holds docs/conformance.md, scenarios.md, differences.md and python_api.md to the tests: no rule missing, no test that is not there.

    tools/check_conformance.py --build-dir DIR   every rule has a row, every test it names exists, every file of tests is built
    tools/check_conformance.py --junit FILE      every test it names ran and passed, as ctest's report says
"""

import argparse
import re
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ROOT / "docs/scenarios.md"
PAGES = [ROOT / "docs/conformance.md", ROOT / "docs/differences.md", ROOT / "docs/python_api.md", SCENARIOS]


def numbered(prefix: str, last: int) -> list[str]:
    return [f"{prefix}.{n}" for n in range(1, last + 1)]


# Every rule of the description's chapters on the run time, and every row of its tables without numbers.
RULES = [
    *numbered("R1", 18), *numbered("R2", 4), *numbered("R3", 18), *numbered("R4", 5),
    *numbered("R5.1", 3), *numbered("R5.2", 6), *numbered("R5.3", 3), *numbered("R5.4", 6), *numbered("R5.5", 7),
    *numbered("R6", 29), *numbered("R7", 20), "R7.11b", *numbered("R8", 7), *numbered("R9", 13), *numbered("R10", 15), *numbered("R11", 17),
    *numbered("R12", 7), *numbered("R13", 5), *numbered("R14", 14),
    *numbered("R17", 3), *numbered("R20", 3),
    *(f"15 {name}" for name in [
        "TinkerError", "APIError", "APIResponseValidationError", "APIStatusError", "BadRequestError",
        "AuthenticationError", "BillingError", "PermissionDeniedError", "NotFoundError", "ConflictError",
        "UnprocessableEntityError", "RateLimitError", "InternalServerError", "APIConnectionError", "APITimeoutError",
        "RequestFailedError", "ValueError", "RetryableException", "TimeoutError", "AssertionError", "KeyError",
        "RuntimeError", "message texts"]),
    *(f"19 {name}" for name in [
        "TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD", "TINKER_PROJECT_ID", "TINKER_TAGS",
        "TINKER_TELEMETRY", "TINKER_LOG", "TINKER_FEATURE_GATES", "CLOUDFLARE_ACCESS_CLIENT_ID",
        "CLOUDFLARE_ACCESS_CLIENT_SECRET", "HOME"]),
]
NAME = re.compile(r"`([a-z_0-9]+\.[A-Za-z_0-9./]+)`")
NO_TEST = ("does not apply:", "with the clients:")


def rows(page: Path) -> list[tuple[str, str]]:
    """(first cell, last cell) of every table row."""
    out = []
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 3 and not set(cells[0]) <= {"-", ":"}:
            out.append((cells[0], cells[-1]))
    return out


def check_rules() -> list[str]:
    table = dict(rows(PAGES[0]))
    findings = [f"{rule}: no row in {PAGES[0].name}" for rule in RULES if rule not in table]
    for rule, proof in table.items():
        if rule in RULES and not NAME.search(proof) and not proof.startswith(NO_TEST):
            findings.append(f"{rule}: names no test, and gives no reason ({' or '.join(NO_TEST)})")
    return findings


def check_scenarios() -> list[str]:
    """The numbered ones are all there, and every row has its test or its reason."""
    table = [(scenario, proof) for scenario, proof in rows(SCENARIOS) if proof != "proof"]
    numbers = {scenario.split()[0] for scenario, _ in table}
    findings = [f"scenario {n}: no row in {SCENARIOS.name}" for n in range(1, 16) if str(n) not in numbers]
    return findings + [f"scenario {scenario}: names no test, and gives no reason" for scenario, proof in table
                       if not NAME.search(proof) and not proof.startswith(NO_TEST)]


def named_tests() -> set[str]:
    return {name for page in PAGES for _, proof in rows(page) for name in NAME.findall(proof)}


def existing_tests(build_dir: str) -> set[str]:
    listing = subprocess.run(["ctest", "--test-dir", build_dir, "-N"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ *Test +#\d+: (\S+)", listing, re.M))


def unbuilt_tests(build_dir: str) -> list[str]:
    """Files of tests that no target compiles. Those of the adapters need libraries that may not be there."""
    commands = Path(build_dir, "compile_commands.json")
    if not commands.exists():
        return []
    built = commands.read_text()
    files = [path for path in sorted(ROOT.glob("tests/**/*_test.cc")) if path.parent.name != "adapters"]
    return [f"{path.relative_to(ROOT)}: not built, so none of its tests runs" for path in files if f"{path}\"" not in built]


def passed_tests(report: str) -> set[str]:
    return {case.get("name") for case in xml.parse(report).getroot().iter("testcase")
            if case.get("status") == "run" and case.find("failure") is None and case.find("skipped") is None}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build-dir")
    parser.add_argument("--junit")
    arguments = parser.parse_args()
    findings = check_rules() + check_scenarios()
    if arguments.build_dir:
        findings += unbuilt_tests(arguments.build_dir)
        findings += [f"{name}: no such test" for name in sorted(named_tests() - existing_tests(arguments.build_dir))]
    if arguments.junit:
        findings += [f"{name}: did not run, or did not pass" for name in sorted(named_tests() - passed_tests(arguments.junit))]
    if findings:
        print("\n".join(findings), file=sys.stderr)
        return 1
    if not arguments.junit:
        print(f"check_conformance: {len(RULES)} rules, {len(named_tests())} tests named")
    return 0


if __name__ == "__main__":
    sys.exit(main())
