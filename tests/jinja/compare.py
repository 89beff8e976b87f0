#!/usr/bin/env python3
"""Renders templates with our Jinja and with jinja2 as `transformers` sets it up, on generated conversations, and compares.

    compare.py --render PROGRAM [--conversations N] FOLDER...

Each FOLDER holds templates, *.jinja. Both must give the same text, or both must refuse.
"""

import argparse
import datetime
import json
import random
import subprocess
import sys
from pathlib import Path

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 3, 7, 15, 4, 9, tzinfo=datetime.timezone.utc)


class Generation(Extension):
    """The tag that marks what an assistant said."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("said"), [], [], body).set_lineno(line)

    def said(self, caller):
        return caller()


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


TEXTS = [
    "Hello", "", " ", "two\nlines", "  spaces around \n", "What is 2 + 2?", "größer ≠ 小さい 🙂", "<|im_end|> <b>&amp;'\"", "a\\b\tc", "None",
    "{{ not a template }}", "<think>old</think> new", "line\r\nbreak", "x" * 40, "İstanbul ǅ ß", "</think>", "<think>\nhm\n</think>\n\nyes",
]


def tool(rng):
    kinds = ["string", "integer", "number", "boolean", "array", "object", ["string", "null"]]
    properties = {}
    for name in rng.sample(["city", "unit", "count", "items", "values", "name", "zip_code"], rng.randint(0, 3)):
        kind = rng.choice(kinds)
        one = {"type": kind}
        if rng.random() < 0.7:
            one["description"] = rng.choice(TEXTS)
        if rng.random() < 0.2:
            one["enum"] = ["a", "b"]
        if rng.random() < 0.1:
            one["default"] = rng.choice([1, "x", None, True, 0.5])
        if kind == "array":
            one["items"] = {"type": "string"}
        if kind == "object":
            one["properties"] = {"inner": {"type": "integer"}}
        properties[name] = one
    function = {"name": rng.choice(["get_weather", "search", "add"]), "description": rng.choice(TEXTS)}
    if rng.random() < 0.9:
        function["parameters"] = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": function}


def call(rng, number):
    arguments = {key: rng.choice(["x", "two words", 3, 2.5, True, None, [1, "a"], {"k": "ü"}]) for key in rng.sample(["city", "n", "deep"], rng.randint(0, 3))}
    as_text = rng.random() < 0.2
    return {
        "id": f"call_{number:05d}xyz"[:9],
        "type": "function",
        "function": {"name": rng.choice(["get_weather", "search"]), "arguments": json.dumps(arguments) if as_text else arguments},
    }


def content(rng, with_parts):
    text = rng.choice(TEXTS)
    if not with_parts or rng.random() < 0.8:
        return text
    parts = [{"type": "text", "text": text}]
    if rng.random() < 0.3:
        parts.insert(0, {"type": "image"})
    return parts


def conversation(rng):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(TEXTS)})
    with_parts = rng.random() < 0.2
    has_tools = rng.random() < 0.4
    for turn in range(rng.randint(1, 3)):
        messages.append({"role": "user", "content": content(rng, with_parts)})
        if rng.random() < 0.1:
            messages.append({"role": rng.choice(["user", "critic", "developer"]), "content": rng.choice(TEXTS)})
        if turn == 2 or rng.random() < 0.25:
            break
        answer = {"role": "assistant", "content": content(rng, with_parts)}
        if rng.random() < 0.3:
            answer[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice(TEXTS)
        if has_tools and rng.random() < 0.7:
            calls = [call(rng, 10 * turn + i) for i in range(rng.randint(1, 2))]
            answer["tool_calls"] = calls
            if rng.random() < 0.4:
                answer["content"] = rng.choice(["", None])
            messages.append(answer)
            for one in calls:
                messages.append({"role": "tool", "name": one["function"]["name"], "tool_call_id": one["id"], "content": rng.choice(TEXTS + ['{"t": 21}'])})
            if rng.random() < 0.5:
                continue
            answer = {"role": "assistant", "content": rng.choice(TEXTS)}
        messages.append(answer)
    variables = {"messages": messages, "add_generation_prompt": rng.random() < 0.6, "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    if has_tools:
        variables["tools"] = [tool(rng) for _ in range(rng.randint(1, 3))]
    elif rng.random() < 0.5:
        variables["tools"] = None
    for name, values in {
        "enable_thinking": [True, False],
        "thinking": [True, False],
        "reasoning_effort": ["low", "medium", "high"],
        "date_string": ["26 Jul 2024"],
        "documents": [[{"title": "T", "text": "body"}], None],
        "keep_past_thinking": [True, False],
        "preserve_thinking": [True, False],
        "clear_thinking": [True, False],
        "tools_in_user_message": [True, False],
        "custom_tools": [None],
    }.items():
        if rng.random() < 0.25:
            variables[name] = rng.choice(values)
    return variables


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--render", required=True)
    parser.add_argument("--conversations", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("folders", nargs="+", type=Path)
    arguments = parser.parse_args()

    ours = subprocess.Popen([arguments.render], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    env = environment()
    compared = rendered = different = 0
    templates = sorted(path for folder in arguments.folders for path in folder.rglob("*.jinja"))
    for path in templates:
        source = path.read_bytes().decode()
        rng = random.Random(f"{arguments.seed} {path.name}")
        try:
            template, refusal = env.from_string(source), None
        except jinja2.TemplateError as error:
            template, refusal = None, str(error)
        wrong = 0
        for _ in range(arguments.conversations):
            variables = conversation(rng)
            expected, why = None, refusal
            if template:
                try:
                    expected = template.render(**variables)
                except Exception as error:  # whatever Python raises is a refusal
                    why = f"{type(error).__name__}: {error}"
            ours.stdin.write(json.dumps({"template": source, "variables": variables, "now": int(NOW.timestamp())}) + "\n")
            ours.stdin.flush()
            answer = json.loads(ours.stdout.readline())
            compared += 1
            rendered += expected is not None
            if answer.get("text") != expected:
                wrong += 1
                if wrong <= arguments.show:
                    print(f"{path.name}: {json.dumps(variables)[:1500]}\n  jinja2: {expected if expected is not None else why!r}\n  ours:   {answer}")
        different += wrong
    ours.stdin.close()
    print(f"{len(templates)} templates, {compared} conversations, {rendered} of them rendered, {different} different")
    sys.exit(1 if different or not compared else 0)


if __name__ == "__main__":
    main()
