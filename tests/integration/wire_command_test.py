"""The tinker command as a process: `tinker version` and `tinker wire` (WIRE_TOOL).

What each type accepts is the business of tests/unit/wire and tests/parity; here it is the command line itself:
arguments, standard streams, exit status. CTest passes the command's path in TINKER_COMMAND.
"""

import base64
import collections
import json
import os
import select
import subprocess
import unittest

COMMAND = os.environ.get("TINKER_COMMAND", "build/dev/bin/tinker")
TIMEOUT_S = 30  # of one run; a deadlock ends here

OK, REFUSED, USAGE = 0, 1, 2

# PROTOBUF 3.3, 4.2 and 5.5: the worked examples.
FORWARD_BACKWARD_REQUEST = bytes.fromhex(
    "0a0b732d313a747261696e3a3010011a540a0c0a0a0a080a0000000b00000012280a0d7461726765745f746f6b656e73"
    "12170a100b000000000000000c000000000000001802220102121a0a0777656967687473120f0a08000000000000803f"
    "1801220102220d63726f73735f656e74726f7079"
)
SAMPLE_RESPONSE = bytes.fromhex(
    "0a160801120805000000060000001a08000000bf000080be12080000c07f000080bf1a180a08000000000700000012088"
    "04fc3c7000080bf180120022001"
)
FORWARD_BACKWARD_OUTPUT = bytes.fromhex(
    "0a0f546f7263684c6f737352657475726e124b0a0f546f7263684c6f737352657475726e12360a086c6f6770726f6273"
    "122a0a0c000000bf000080bf000000c01218000000000000000008000000000000000c00000000000000180118021a13"
    "0a086c6f73733a73756d110000000000000c40"
)

TENSOR_JSON = b'{"data":[0.0,1.0],"dtype":"float32","shape":[2]}'
TENSOR_PROTO = bytes.fromhex("0a08000000000000803f1801220102")

Outcome = collections.namedtuple("Outcome", "status stdout stderr")


def tinker(*arguments, stdin=b""):
    run = subprocess.run([COMMAND, *arguments], input=stdin, capture_output=True, timeout=TIMEOUT_S)
    return Outcome(run.returncode, run.stdout, run.stderr.decode())


class CommandTest(unittest.TestCase):
    def assert_output(self, outcome, expected):
        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        self.assertEqual(outcome.stdout, expected)

    def assert_usage_error(self, outcome, part_of_message):
        self.assertEqual((outcome.status, outcome.stdout), (USAGE, b""))
        self.assertIn(part_of_message, outcome.stderr)


class Version(CommandTest):
    def test_names_the_program_and_the_protocol(self):
        outcome = tinker("version")

        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        self.assertRegex(outcome.stdout, rb"\Atinker \d+\.\d+\.\d+ \(C\+\+, protocol 0\.36\.0\)\n\Z")


class Help(CommandTest):
    def test_of_the_program_lists_the_commands(self):
        outcome = tinker("--help")

        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        for command in (b"version", b"wire"):
            self.assertRegex(outcome.stdout, rb"(?m)^ +%s " % command)

    def test_of_wire_lists_the_options(self):
        outcome = tinker("wire", "--help")

        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        for option in (b"TYPE", b"--list", b"--from", b"--to", b"--lines", b"--lenient"):
            self.assertIn(option, outcome.stdout)


class Usage(CommandTest):
    def test_a_command_is_needed(self):
        self.assert_usage_error(tinker(), "--help")

    def test_an_unknown_command_is_refused(self):
        self.assert_usage_error(tinker("bogus"), "--help")

    def test_an_unknown_option_is_refused(self):
        self.assert_usage_error(tinker("wire", "adam_params", "--bogus"), "--bogus")

    def test_wire_needs_a_type_or_list(self):
        self.assert_usage_error(tinker("wire"), "TYPE")

    def test_an_unknown_type_is_named(self):
        self.assert_usage_error(tinker("wire", "bogus_request"), "'bogus_request'")

    def test_an_unknown_encoding_is_named(self):
        for option in ("--from", "--to"):
            with self.subTest(option):
                self.assert_usage_error(tinker("wire", "tensor_data", option, "xml"), "xml")

    def test_a_form_the_type_does_not_have_is_named(self):
        cases = [
            (("datum", "--from", "json"), "datum has no json form"),
            (("datum", "--to", "json"), "datum has no json form"),
            (("adam_params", "--from", "proto"), "adam_params has no proto form"),
            (("adam_params", "--to", "proto"), "adam_params has no proto form"),
        ]
        for arguments, message in cases:
            with self.subTest(arguments):
                self.assert_usage_error(tinker("wire", *arguments), message)


class List(CommandTest):
    def rows(self):
        outcome = tinker("wire", "--list")
        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        return [line.split() for line in outcome.stdout.decode().splitlines()]

    def test_has_120_lines_of_three_columns(self):
        self.assertEqual([len(row) for row in self.rows()], [3] * 120)

    def test_names_each_type_once(self):
        names = [name for name, _, _ in self.rows()]

        self.assertEqual(len(set(names)), 120)

    def test_counts_the_kinds(self):
        kinds = collections.Counter(kind for _, kind, _ in self.rows())

        self.assertEqual(kinds, {"request": 23, "response": 42, "value": 55})

    def test_names_the_types_that_are_not_json(self):
        others = {name: encoding for name, _, encoding in self.rows() if encoding != "json"}

        self.assertEqual(
            others,
            {
                "forward_backward_request": "proto",
                "forward_backward_output": "proto",
                "sample_response": "proto",
                "datum": "proto",
                "tensor_data": "both",
            },
        )

    def test_shows_types_the_command_then_knows(self):
        for name, _, _ in self.rows():
            with self.subTest(name):
                self.assertEqual(tinker("wire", name, "--lines").status, OK)


class OneDocument(CommandTest):
    def test_is_json_where_the_type_has_it(self):
        outcome = tinker("wire", "get_info_request", stdin=b'{"model_id": "m"}\n')

        self.assert_output(outcome, b'{"model_id":"m","type":"get_info"}\n')

    def test_may_be_spread_over_lines(self):
        outcome = tinker("wire", "get_info_request", stdin=b'{\n  "model_id":\n  "m"\n}\n')

        self.assert_output(outcome, b'{"model_id":"m","type":"get_info"}\n')

    def test_is_proto_where_the_type_has_no_json(self):
        cases = [
            ("forward_backward_request", FORWARD_BACKWARD_REQUEST),
            ("sample_response", SAMPLE_RESPONSE),
            ("forward_backward_output", FORWARD_BACKWARD_OUTPUT),
        ]
        for name, message in cases:
            with self.subTest(name):
                self.assert_output(tinker("wire", name, stdin=message), message)

    def test_is_json_by_default_where_the_type_has_both(self):
        self.assert_output(tinker("wire", "tensor_data", stdin=TENSOR_JSON), TENSOR_JSON + b"\n")

    def test_changes_its_encoding_on_the_way_out(self):
        outcome = tinker("wire", "tensor_data", "--to", "proto", stdin=TENSOR_JSON)

        self.assert_output(outcome, TENSOR_PROTO)

    def test_changes_its_encoding_on_the_way_in(self):
        outcome = tinker("wire", "tensor_data", "--from", "proto", stdin=TENSOR_PROTO)

        self.assert_output(outcome, TENSOR_JSON + b"\n")

    def test_stays_binary_when_both_ends_are(self):
        outcome = tinker("wire", "tensor_data", "--from", "proto", "--to", "proto", stdin=TENSOR_PROTO)

        self.assert_output(outcome, TENSOR_PROTO)

    def test_may_be_the_empty_message(self):
        self.assert_output(tinker("wire", "sample_response"), b"")

    def test_takes_every_byte_of_a_binary_message(self):
        message = datum_with_image(bytes(range(256)))

        self.assert_output(tinker("wire", "datum", stdin=message), message)

    def test_is_named_with_its_path_when_refused(self):
        outcome = tinker("wire", "model_input", stdin=b'{"chunks":[{"tokens":[1,"x"],"type":"encoded_text"}]}')

        self.assertEqual((outcome.status, outcome.stdout), (REFUSED, b""))
        self.assertRegex(outcome.stderr, r"\Achunks\[0\]\.tokens\[1\]: expected an integer")

    def test_is_refused_without_a_line_of_output(self):
        cases = [
            ("get_info_request", b""),
            ("get_info_request", b"[]"),
            ("get_info_request", b"{"),
            ("get_info_request", b'{"model_id":"m"} {}'),
            ("get_info_request", b'{"model_id":"m","extra":1}'),
            ("get_info_request", b"{}"),
            ("sample_response", b"\x0a\x08"),
            ("datum", b"\xff"),
        ]
        for name, document in cases:
            with self.subTest(name=name, document=document):
                outcome = tinker("wire", name, stdin=document)
                self.assertEqual((outcome.status, outcome.stdout), (REFUSED, b""))
                self.assertRegex(outcome.stderr, r"\A[^\n]+: [^\n]+\n\Z")

    def test_of_a_request_is_refused_with_an_unknown_member(self):
        outcome = tinker("wire", "session_heartbeat_request", stdin=b'{"session_id":"s","novel":1}')

        self.assertEqual((outcome.status, outcome.stdout), (REFUSED, b""))
        self.assertRegex(outcome.stderr, r"\Anovel: ")

    def test_of_an_answer_passes_over_an_unknown_member(self):
        outcome = tinker("wire", "list_sessions_response", stdin=b'{"sessions":["s"],"novel":1}')

        self.assert_output(outcome, b'{"sessions":["s"]}\n')


def field(number, payload):
    """One length-delimited protobuf field."""
    size, varint = len(payload), b""
    while size > 127:
        varint += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([size]) + payload


def datum_with_image(data):
    """A Datum of one image chunk (PROTOBUF 3)."""
    return field(1, field(2, field(1, data) + field(2, b"png")))


class Lenient(CommandTest):
    def test_reports_unknown_members_on_standard_error(self):
        outcome = tinker("wire", "sample_request", "--lenient", stdin=json.dumps({
            "prompt": {"chunks": [], "novel": 1},
            "sampling_params": {},
            "newer": [2],
        }).encode())

        self.assertEqual(outcome.status, OK)
        self.assertIn("type", json.loads(outcome.stdout))
        reported = [line.partition(":")[0] for line in outcome.stderr.splitlines()]
        self.assertEqual(sorted(reported), ["newer", "prompt.novel"])

    def test_leaves_out_what_it_reports(self):
        outcome = tinker("wire", "get_info_request", "--lenient", stdin=b'{"model_id":"m","novel":1}')

        self.assertEqual(outcome.stdout, b'{"model_id":"m","type":"get_info"}\n')

    def test_reports_nothing_when_all_is_known(self):
        outcome = tinker("wire", "get_info_request", "--lenient", stdin=b'{"model_id":"m"}')

        self.assert_output(outcome, b'{"model_id":"m","type":"get_info"}\n')

    def test_refuses_what_would_change_the_arithmetic(self):
        outcome = tinker("wire", "adam_params", "--lenient", stdin=b'{"learning_rate":0.1,"novel":1}')

        self.assertEqual((outcome.status, outcome.stdout), (REFUSED, b""))
        self.assertRegex(outcome.stderr, r"\Anovel: ")

    def test_works_line_by_line(self):
        lines = b'{"model_id":"a","novel":1}\n{"model_id":"b"}\n'

        outcome = tinker("wire", "get_info_request", "--lenient", "--lines", stdin=lines)

        self.assertEqual(len(outcome.stdout.splitlines()), 2)
        self.assertRegex(outcome.stderr, r"\Anovel: [^\n]+\n\Z")


class Lines(CommandTest):
    def test_gives_one_line_for_each_line(self):
        lines = b"".join(b'{"model_id":"m%d"}\n' % i for i in range(1000))

        outcome = tinker("wire", "get_info_request", "--lines", stdin=lines)

        self.assert_output(outcome, b"".join(b'{"model_id":"m%d","type":"get_info"}\n' % i for i in range(1000)))

    def test_reads_a_last_line_without_an_end(self):
        outcome = tinker("wire", "get_info_request", "--lines", stdin=b'{"model_id":"a"}\n{"model_id":"b"}')

        self.assertEqual(len(outcome.stdout.splitlines()), 2)

    def test_gives_nothing_for_nothing(self):
        self.assert_output(tinker("wire", "get_info_request", "--lines"), b"")

    def test_goes_on_after_a_refusal(self):
        lines = b'{"model_id":1}\n{"model_id":"m"}\n{}\n[\n{"model_id":"n"}\n'

        outcome = tinker("wire", "get_info_request", "--lines", stdin=lines)

        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        answers = [json.loads(line) for line in outcome.stdout.splitlines()]
        self.assertEqual([sorted(answer) for answer in answers],
                         [["error"], ["model_id", "type"], ["error"], ["error"], ["model_id", "type"]])

    def test_begins_an_error_with_the_top_level_member(self):
        outcome = tinker("wire", "model_input", "--lines", stdin=b'{"chunks":[{"tokens":[1,"x"]}]}\n')

        self.assertRegex(json.loads(outcome.stdout)["error"], r"\Achunks\[0\]\.tokens\[1\]: expected ")

    def test_escapes_what_an_error_quotes(self):
        member = 'no"ve\\l\n\u00e9'

        outcome = tinker("wire", "get_info_request", "--lines",
                         stdin=json.dumps({"model_id": "m", member: 1}).encode() + b"\n")

        self.assertEqual(len(outcome.stdout.splitlines()), 1)
        self.assertIn("error", json.loads(outcome.stdout))

    def test_refuses_an_empty_line_of_json(self):
        outcome = tinker("wire", "get_info_request", "--lines", stdin=b'\n{"model_id":"m"}\n')

        first, second = outcome.stdout.splitlines()
        self.assertIn("error", json.loads(first))
        self.assertEqual(json.loads(second)["model_id"], "m")

    def test_carries_proto_in_base64(self):
        line = base64.b64encode(FORWARD_BACKWARD_REQUEST) + b"\n"

        self.assert_output(tinker("wire", "forward_backward_request", "--lines", stdin=line), line)

    def test_reads_an_empty_line_as_the_empty_message(self):
        self.assert_output(tinker("wire", "sample_response", "--lines", stdin=b"\n\n"), b"\n\n")

    def test_refuses_a_line_that_is_not_base64(self):
        good = base64.b64encode(SAMPLE_RESPONSE)
        for bad in (b"!", b"CgA", b"CgA=CgA=", b"Cg A=", b"CgA=\r"):
            with self.subTest(bad):
                outcome = tinker("wire", "sample_response", "--lines", stdin=bad + b"\n" + good + b"\n")
                first, second = outcome.stdout.splitlines()
                self.assertRegex(json.loads(first)["error"], "base64")
                self.assertEqual(second, good)

    def test_refuses_a_malformed_message_and_goes_on(self):
        lines = base64.b64encode(b"\x0a\x08") + b"\n\n"

        outcome = tinker("wire", "sample_response", "--lines", stdin=lines)

        first, second = outcome.stdout.splitlines()
        self.assertIn("error", json.loads(first))
        self.assertEqual(second, b"")

    def test_changes_the_encoding_both_ways(self):
        in_base64 = base64.b64encode(TENSOR_PROTO)

        self.assert_output(tinker("wire", "tensor_data", "--to", "proto", "--lines", stdin=TENSOR_JSON + b"\n"),
                           in_base64 + b"\n")
        self.assert_output(tinker("wire", "tensor_data", "--from", "proto", "--lines", stdin=in_base64 + b"\n"),
                           TENSOR_JSON + b"\n")

    def test_takes_a_line_longer_than_any_pipe(self):
        document = json.dumps({"tokens": list(range(200_000)), "type": "encoded_text"}, separators=(",", ":"))

        outcome = tinker("wire", "encoded_text_chunk", "--lines", stdin=document.encode() + b"\n")

        self.assert_output(outcome, document.encode() + b"\n")


class Conversation:
    """`tinker wire --lines` with both ends open."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([COMMAND, "wire", *arguments, "--lines"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()

    def say(self, data):
        self.process.stdin.write(data)

    def hear(self):
        """The next line of output."""
        while b"\n" not in self.buffer:
            readable, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
            if not readable:
                raise TimeoutError("no answer although a whole line was written")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise EOFError("the command ended before it answered")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line


class Interleaved(CommandTest):
    def test_answers_each_line_before_the_next_is_written(self):
        with Conversation("get_info_request") as talk:
            for i in range(100):
                talk.say(b'{"model_id":"m%d"}\n' % i)
                self.assertEqual(talk.hear(), b'{"model_id":"m%d","type":"get_info"}' % i)

    def test_answers_a_refusal_before_the_next_line_is_written(self):
        with Conversation("get_info_request") as talk:
            talk.say(b"[]\n")
            self.assertIn("error", json.loads(talk.hear()))
            talk.say(b'{"model_id":"m"}\n')
            self.assertEqual(json.loads(talk.hear())["model_id"], "m")

    def test_answers_a_line_while_the_next_is_half_written(self):
        with Conversation("get_info_request") as talk:
            talk.say(b'{"model_id":"a"}\n{"model_')
            self.assertEqual(json.loads(talk.hear())["model_id"], "a")
            talk.say(b'id":"b"}\n')
            self.assertEqual(json.loads(talk.hear())["model_id"], "b")

    def test_answers_the_empty_message(self):
        with Conversation("sample_response") as talk:
            talk.say(b"\n")
            self.assertEqual(talk.hear(), b"")

    def test_ends_when_its_input_ends(self):
        with Conversation("get_info_request") as talk:
            talk.say(b'{"model_id":"a"}\n')
            talk.hear()
            talk.process.stdin.close()
            self.assertEqual(talk.process.wait(TIMEOUT_S), OK)


if __name__ == "__main__":
    unittest.main()
