"""What the scripts of this folder share: a test case with a server, and expectations that have a time limit.

    python3 every_method.py --tinker build/bin/tinker [--flags off] [unittest's arguments]
"""

import argparse
import asyncio
import contextlib
import faulthandler
import logging
import os
import re
import sys
import threading
import time
import unittest
import warnings

from served import BASE_MODEL, Served

# What turns off every feature that a server can announce (PROTOCOL 9.1, 9.2).
FEATURES = (
    "parallel_fwdbwd_chunks",
    "proto_compress_fwdbwd",
    "use_pyqwest_transport",
    "create_model_via_load_weights",
    "sample_use_retrieve_futures",
    "custom_loss_server_side",
    "sample_join_sampling_session",
    "sample_cancel_enabled",
)
# The other booleans that a server announces, which are the same whether its features are on or off.
SETTINGS = {
    "sample_no_retries": False,
    "sample_enable_stuck_detection": True,
    "proto_write_fwdbwd": True,
    "fwd_via_fwdbwd": True,
}
HANG_SECONDS = 150  # of one test: beyond it all threads say where they are, and the script ends
QUICK_SECONDS = 10  # what a refusal may take; clients that retry take five minutes

ARGUMENTS = argparse.Namespace(tinker=None, flags="on", default_limits=False)


class ServedCase(unittest.TestCase):
    """Tests of a server; classes with the same options share it. TINKER_BASE_URL and TINKER_API_KEY say where it is."""

    OPTIONS = ()
    KEYS = None
    servers = {}  # by options

    @classmethod
    def setUpClass(cls):
        flags = FEATURES if ARGUMENTS.flags == "off" else ()
        options = (*(part for flag in flags for part in ("--flag", f"{flag}=off")), *cls.OPTIONS)
        kind = repr((options, cls.KEYS))
        if kind not in cls.servers:
            cls.servers[kind] = Served(ARGUMENTS.tinker, *options, keys=cls.KEYS).__enter__()
        cls.server = cls.servers[kind]
        os.environ["TINKER_BASE_URL"] = cls.server.url
        os.environ["TINKER_API_KEY"] = next(iter(cls.server.keys.values()))
        os.chdir(cls.server.folder)  # where its tokenizer is

    def run(self, result=None):
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        try:
            return super().run(result)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def assert_matches(self, pattern, text):
        self.assertIsNotNone(re.fullmatch(pattern, text), f"{text!r} is not of the form {pattern}")

    def assert_refused(self, call, *parts, kind=Exception, seconds=QUICK_SECONDS):
        """`call` fails within `seconds`, with a text that has all `parts`; yields the exception."""
        error = in_time(call, seconds)
        self.assertIsInstance(error, kind, f"it should fail; it yields {error!r}")
        for part in parts:
            self.assertIn(str(part), text_of(error))
        return error


def text_of(error):
    """Messages of an exception and of what it came from."""
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__
    return " / ".join(texts)


def in_time(call, seconds):
    """What `call` yields or raises (futures and coroutines: what they end with), if that takes no longer than `seconds`."""
    outcome = []

    def run():
        try:
            value = call()
            if asyncio.iscoroutine(value):
                value = asyncio.run(value)
            outcome.append(value.result() if hasattr(value, "result") else value)
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise AssertionError(f"no answer after {seconds} s")
    return outcome[0]


@contextlib.contextmanager
def at_most(seconds):
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    assert took <= seconds, f"this took {took:.1f} s, more than {seconds} s"


def eventually(condition, seconds=20):
    """Whether `condition` becomes true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def end_servers(is_good):
    """Stops them; shows their logs where something was wrong. Yields whether all is well."""
    os.chdir("/")
    for server in ServedCase.servers.values():
        status = server.stop()
        if status != 0:
            print(f"a server ended with {status}", file=sys.stderr)
            is_good = False
        server.__exit__(None if is_good else AssertionError, None, None)
    return is_good


def main(*, check=None):
    """Runs the tests of the calling script, then `check`, which yields what is wrong, or nothing. No test may skip: what a
    release of the SDK does not have is not defined for it."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--tinker", required=True, type=os.path.abspath)
    parser.add_argument("--flags", choices=("on", "off"), default="on")
    parser.add_argument("--default-limits", action="store_true")
    _, others = parser.parse_known_args(namespace=ARGUMENTS)
    warnings.simplefilter("ignore")  # deprecated calls are calls as well
    # What the SDK says of failures reaches the tests as exceptions.
    logging.getLogger("tinker").addHandler(logging.NullHandler())
    logging.getLogger("tinker").propagate = False
    program = unittest.main(argv=[sys.argv[0], *others], exit=False, warnings="ignore")
    is_good = program.result.wasSuccessful() and program.result.testsRun > 0
    for test, reason in program.result.skipped:
        print(f"{test.id()} was skipped: {reason}", file=sys.stderr)
        is_good = False
    is_selection = any(not other.startswith("-") for other in others)
    if check and is_good and not is_selection:
        problem = check()
        if problem:
            print(problem, file=sys.stderr)
            is_good = False
    is_good = end_servers(is_good)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if is_good else 1)  # connections of clients that are gone need no farewell


__all__ = [
    "ARGUMENTS",
    "BASE_MODEL",
    "FEATURES",
    "QUICK_SECONDS",
    "SETTINGS",
    "ServedCase",
    "at_most",
    "eventually",
    "in_time",
    "main",
    "text_of",
]
