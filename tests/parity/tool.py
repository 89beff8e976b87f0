"""Runs `tinker wire`."""

from __future__ import annotations

import subprocess


class ToolError(Exception):
    """The tool did not do its part of the contract (exit status, number of lines)."""


class Tool:
    """The command under test. `subprocess.run` feeds and drains it at once, so nothing can block."""

    def __init__(self, path: str, timeout: float = 120.0) -> None:
        self.path = path
        self.timeout = timeout

    def run(self, arguments: list[str], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.path, "wire", *arguments],
            input=data,
            capture_output=True,
            timeout=self.timeout,
            check=False,
        )

    def listing(self) -> str:
        done = self.run(["--list"])
        if done.returncode != 0:
            raise ToolError(f"--list exits {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode()

    def lines(self, name: str, flags: tuple[str, ...], lines: list[str]) -> list[str]:
        """One answer per line; the line separator is only ever a line feed."""
        data = "".join(line + "\n" for line in lines).encode()
        done = self.run([name, *flags, "--lines"], data)
        if done.returncode != 0:
            error = done.stderr.decode(errors="replace")[-500:]
            raise ToolError(f"exits {done.returncode} in line mode: {error}")
        answers = done.stdout.decode().split("\n")
        if answers.pop() != "":
            raise ToolError("the last answer does not end with a line feed")
        if len(answers) != len(lines):
            raise ToolError(f"{len(lines)} lines in, {len(answers)} lines out")
        return answers

    def single(self, name: str, flags: tuple[str, ...], data: bytes) -> tuple[int, bytes, str]:
        """Exit status, standard output, standard error of one document."""
        done = self.run([name, *flags], data)
        return done.returncode, done.stdout, done.stderr.decode(errors="replace")
