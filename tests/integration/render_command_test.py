"""The tinker command as a process: `tinker render` and `tinker data check`.

What renderers make of conversations is the business of tests/render; here it is the command lines, what they print, and
which renderer they take. CTest passes the command's path in TINKER_COMMAND.
"""

import collections
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

from hub_server import HubServer  # noqa: E402

COMMAND = os.environ.get("TINKER_COMMAND", str(ROOT / "build/dev/bin/tinker"))
TIMEOUT_S = 60  # of one run; a deadlock ends here
OK, REFUSED, USAGE = 0, 1, 2

GOLDEN = ROOT / "tests/golden/tokenizer"
# A small vocabulary with the control tokens of Qwen3, and those that are found in what people write.
QWEN3 = json.loads((GOLDEN / "qwen.json").read_text())
QWEN3["added_tokens"] += [
    {**QWEN3["added_tokens"][0], "id": 700 + i, "content": content, "special": content.startswith("<|")}
    for i, content in enumerate(["<|im_start|>", "<|im_end|>", "<think>", "</think>"])
]
IM_END = 701

CHATML = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    "{%- if add_generation_prompt and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)

HELLO = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]
TWICE = [*HELLO, {"role": "user", "content": "Again"}, {"role": "assistant", "content": "Yes?"}]

Outcome = collections.namedtuple("Outcome", "status stdout stderr")


def environment(variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS"))}
    return kept | variables


def run(*arguments, stdin="", **variables):
    done = subprocess.run(
        [COMMAND, *map(str, arguments)], input=stdin.encode(), capture_output=True, env=environment(variables), timeout=TIMEOUT_S
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.write("tokenizer.json", json.dumps(QWEN3))
        self.write("tokenizer_config.json", json.dumps({"eos_token": "<|im_end|>", "chat_template": CHATML}))

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def assert_refused(self, outcome, *parts, status=REFUSED):
        self.assertEqual((outcome.status, outcome.stdout), (status, ""), outcome.stderr)
        for part in parts:
            self.assertIn(part, outcome.stderr)


class Render(CommandTest):
    def render(self, *arguments, messages=HELLO, renderer="qwen3_instruct", **variables):
        named = ("--renderer", renderer) if renderer else ()
        return run("render", "-", "--tokenizer", self.folder, *named, *arguments, stdin=json.dumps(messages), **variables)

    def render_json(self, *arguments, **options):
        outcome = self.render("--json", *arguments, **options)
        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        return json.loads(outcome.stdout)

    def test_shows_what_is_trained_in_brackets(self):
        outcome = self.render()
        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        *text, summary = outcome.stdout.splitlines()
        self.assertEqual(
            text, ["<|im_start|>user\\n", "Hi<|im_end|>\\n", "<|im_start|>assistant\\n", "⟦Hello!«<|im_end|>»⟧"]
        )
        self.assertRegex(summary, r"^\d+ tokens, \d+ trained$")

    def test_reads_a_file_with_tools(self):
        tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
        file = self.write("chat.json", json.dumps({"messages": HELLO, "tools": [tool]}))
        outcome = run("render", file, "--renderer", "qwen3_instruct", "--tokenizer", self.folder)
        self.assertEqual(outcome.status, OK, outcome.stderr)
        self.assertIn("# Tools", outcome.stdout)

    def test_prints_json(self):
        answer = self.render_json()
        self.assertEqual(list(answer), ["renderer", "stop", "examples"])
        self.assertEqual((answer["renderer"], answer["stop"]), ("qwen3_instruct", [IM_END]))
        [example] = answer["examples"]
        self.assertEqual(len(example["tokens"]), len(example["weights"]))
        self.assertEqual((example["tokens"][-1], example["weights"][-1], example["weights"][0]), (IM_END, 1.0, 0.0))

    def test_makes_several_examples_where_history_is_rewritten(self):
        self.assertEqual(len(self.render_json(messages=TWICE)["examples"]), 1)
        self.assertEqual(len(self.render_json(messages=TWICE, renderer="qwen3")["examples"]), 2)
        self.assertIn("example 2 of 2", self.render(messages=TWICE, renderer="qwen3").stdout)

    def test_trains_what_it_is_told_to(self):
        def trained(mode):
            [example] = self.render_json("--train-on", mode, messages=TWICE)["examples"]
            return sum(example["weights"])

        self.assertLess(trained("last_assistant_message"), trained("all_assistant_messages"))
        self.assertLess(trained("all_messages"), trained("all_tokens"))
        self.assert_refused(self.render("--train-on", "nothing"), "'nothing'", "all_tokens")
        self.assertIn("no message to train", self.render(messages=TWICE[:1], renderer="qwen3").stdout)

    def test_prompt_is_what_comes_before_the_answer(self):
        answer = self.render_json("--prompt")
        self.assertEqual(list(answer), ["renderer", "stop", "prompt"])
        self.assertEqual(answer["prompt"], self.render_json("--prompt", messages=HELLO[:1])["prompt"])
        self.assertIn("<|im_start|>assistant\\n\n", self.render("--prompt").stdout)

    def test_checks_a_renderer_against_the_template(self):
        same = self.render("--check")
        self.assertEqual((same.status, same.stderr), (OK, ""))
        self.assertIn("the same prompt", same.stdout)
        for name in ("qwen3", "qwen3_disable_thinking"):
            told = self.render("--check", renderer=name)
            self.assertEqual((told.status, told.stderr), (OK, ""), told.stdout)
        different = self.render("--check", messages=[{"role": "user", "content": "Hi   "}])
        self.assertEqual((different.status, different.stderr), (REFUSED, ""))
        ours, theirs = different.stdout.splitlines()[1:]
        self.assertRegex(ours, r"^qwen3_instruct, \d+ tokens: .*Hi⟦ +⟧")
        self.assertRegex(theirs, r"^the template, \d+ tokens: .*Hi⟦<\|im_end\|>⟧")
        self.assert_refused(self.render("--check", renderer="template"), "--check")

    def test_template_makes_a_renderer_where_none_is_named(self):
        self.assertEqual(self.render_json(renderer=None)["renderer"], "template")
        outcome = self.render("--model", "org/unknown", renderer=None)
        self.assertEqual(outcome.status, OK)
        self.assertIn("org/unknown", outcome.stderr)
        self.assertEqual(self.render_json("--model", "Qwen/Qwen3-8B", renderer=None)["renderer"], "qwen3")

    def test_brings_a_model_from_the_hub(self):
        hub = self.enterContext(HubServer())
        files = {name: (self.folder / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}
        hub.add("Qwen/Qwen3-8B").commit(files)
        hub.add("org/own").commit({**files, "chat_template.jinja": CHATML.replace("trim", "upper").encode()})
        variables = {"HF_ENDPOINT": hub.url(), "HF_HOME": str(self.folder / "home")}

        def render(*arguments):
            return run("render", "-", *arguments, stdin=json.dumps(HELLO), **variables)

        by_table, own = render("--model", "Qwen/Qwen3-8B", "--check"), render("--tokenizer", "org/own")
        self.assertEqual((by_table.status, by_table.stderr), (OK, ""))
        self.assertEqual(own.status, OK, own.stderr)
        self.assertIn("HELLO!", own.stdout)

    def test_shows_colours_on_a_terminal_alone(self):
        def on_terminal(**variables):
            file = self.write("chat.json", json.dumps(HELLO))
            ours, theirs = pty.openpty()
            command = [COMMAND, "render", file, "--renderer", "qwen3_instruct", "--tokenizer", self.folder]
            subprocess.run(command, stdout=theirs, env={**os.environ, **variables}, timeout=TIMEOUT_S)
            os.close(theirs)
            return os.read(ours, 65536).decode()

        self.assertIn("\x1b[1;7;", on_terminal())  # the end of the message
        self.assertNotIn("⟦", on_terminal())
        self.assertNotIn("\x1b[", on_terminal(NO_COLOR="1"))

    def test_refuses_what_it_cannot_use(self):
        self.assert_refused(run("render", "-"), "--model or --tokenizer", status=USAGE)
        self.assert_refused(self.render("--check", "--json"), "--json", status=USAGE)
        self.assert_refused(self.render(renderer="no_such"), "no_such", "qwen3_instruct")
        self.assert_refused(self.render(renderer="llama3"), "<|begin_of_text|>")
        self.assert_refused(self.render(messages=[{"role": "user", "text": "Hi"}]), "messages[0]", "'text'")
        self.assert_refused(self.render(messages=[{"role": "usr", "content": "Hi"}]), "messages[0]", "'usr'", "assistant")
        self.assert_refused(run("render", "/no/such", "--tokenizer", self.folder), "/no/such")
        self.assert_refused(run("render", self.folder, "--tokenizer", self.folder), str(self.folder), "folder")


class DataCheck(CommandTest):
    ROWS = [
        {"messages": HELLO},
        {"prompt": "Hi", "completion": "Hello, and much more than that: " + "word " * 40},
        {"prompt": "Hi", "chosen": "Hello!", "rejected": "Go away"},
        {"messages": HELLO[:1]},
        {"text": "Once upon a time."},
    ]

    def rows(self, *rows, name="data.jsonl"):
        return self.write(name, "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))

    def check(self, *arguments):
        return run("data", "check", *arguments)

    def check_json(self, *arguments):
        outcome = self.check("--json", *arguments)
        self.assertEqual(outcome.stderr, "")
        return json.loads(outcome.stdout)

    @property
    def qwen(self):
        return ("--renderer", "qwen3_instruct", "--tokenizer", self.folder)

    def test_counts_rows_without_a_model(self):
        outcome = self.check(self.rows(*self.ROWS))
        self.assertEqual((outcome.status, outcome.stderr), (OK, ""))
        self.assertEqual(outcome.stdout, "1 file, 5 rows: 3 conversations, 1 preference, 1 text, 0 bad\n")

    def test_counts_tokens_and_what_is_trained(self):
        file = self.rows(*self.ROWS)
        answer = self.check_json(file, *self.qwen)
        self.assertEqual(answer["data"], 6)
        self.assertEqual(sum(entry["count"] for entry in answer["lengths"]), 6)
        self.assertEqual(answer["untrained_rows"], 1)
        self.assertGreater(answer["tokens"], answer["trained"])
        self.assertNotIn("truncated_rows", answer)
        text = self.check(file, *self.qwen).stdout
        self.assertIn("lengths in tokens:", text)
        self.assertIn(f"1 row without a trained token, first {file}:4", text)

    def test_tells_what_would_be_truncated(self):
        file = self.rows(*self.ROWS)
        whole = self.check_json(file, *self.qwen)
        cut = self.check_json(file, *self.qwen, "--max-length", "32")
        self.assertEqual(cut["truncated_rows"], 1)
        self.assertEqual(cut["longest"], 31)
        self.assertEqual(cut["lengths"], whole["lengths"])
        exact = str(whole["longest"] + 1)  # the last token is no input
        self.assertEqual(self.check_json(file, *self.qwen, "--max-length", exact)["truncated_rows"], 0)

    def test_roles_that_nobody_knows_are_bad(self):
        file = self.rows({"messages": [{"role": "User", "content": "Hi"}, HELLO[1]]})
        outcome = self.check(file, *self.qwen)
        self.assertEqual(outcome.status, REFUSED)
        self.assertIn(f"{file}:1", outcome.stdout)
        self.assertIn("'User'", outcome.stdout)

    def test_names_the_first_bad_row(self):
        first = self.rows(*self.ROWS, name="good.jsonl")
        file = self.rows({"text": "x y"}, "", {"messages": [{"role": "user", "contents": "Hi"}]}, "{", "[]")
        outcome = self.check(first, file)
        self.assertEqual((outcome.status, outcome.stderr), (REFUSED, ""))
        self.assertIn("2 files, 9 rows", outcome.stdout)
        self.assertIn("3 bad", outcome.stdout)
        self.assertIn(f"first bad row: {file}:3: messages[0]: a message has no member 'contents'", outcome.stdout)
        self.assertEqual(self.check_json(file)["bad"], 3)

    def test_a_row_that_cannot_be_rendered_is_bad(self):
        file = self.rows({"messages": HELLO}, {"messages": [{**HELLO[0], "trainable": True}]})
        self.assertEqual(self.check(file).status, OK)
        outcome = self.check(file, *self.qwen)
        self.assertEqual(outcome.status, REFUSED)
        self.assertIn(f"{file}:2: messages[0].trainable", outcome.stdout)

    def test_refuses_what_it_cannot_use(self):
        file = self.rows(*self.ROWS)
        self.assert_refused(run("data"), status=USAGE)
        self.assert_refused(self.check(file, "--renderer", "qwen3"), "--model or --tokenizer", status=USAGE)
        self.assert_refused(self.check(file, *self.qwen, "--max-length", "1"), "--max-length", status=USAGE)
        self.assert_refused(self.check("/no/such"), "/no/such")
        self.assert_refused(self.check(file, *self.qwen, "--train-on", "nothing"), "'nothing'")


if __name__ == "__main__":
    unittest.main()
