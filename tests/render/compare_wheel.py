"""A second oracle: the renderers of the wheel tml-renderers beside the cookbook's, where both should say the same.

    compare_wheel.py FILE    FILE is written: what both agree on, for render_golden_test

The wheel has rules of its own. Each is a function below; a conversation that one of them is about is left out and counted, any other
difference fails. Run with the Python of `./dev check render`.
"""

import collections
import json
import sys
from pathlib import Path

import make_goldens
import oracle
from conversations import MORE, SHARED
from tml_renderers import chat, renderers

MAKERS = {
    "qwen3": renderers.Qwen3,
    "qwen3_disable_thinking": renderers.Qwen3.disable_thinking,
    "qwen3_instruct": renderers.Qwen3.instruct,
    "qwen3_vl_instruct": renderers.Qwen3.vision_instruct,
    "qwen3_5": renderers.Qwen35,
    "qwen3_5_disable_thinking": renderers.Qwen35.disable_thinking,
    "qwen3_5_preserve_thinking": lambda: renderers.Qwen35(strip_thinking_from_history=False),
    "qwen3_8_xhigh_reasoning": renderers.Qwen38.xhigh,
    "qwen3_8_medium_reasoning": renderers.Qwen38.medium,
    "qwen3_8_low_reasoning": renderers.Qwen38.low,
    "qwen3_8_disable_thinking": renderers.Qwen38.disable_thinking,
    "deepseekv3": renderers.DeepSeekV31,
    "deepseekv3_thinking": renderers.DeepSeekV31.thinking,
    "deepseekv4_1": renderers.DeepSeekV41,
    "deepseekv4_1_low_reasoning": lambda: renderers.DeepSeekV41("low"),
    "deepseekv4_1_max_reasoning": lambda: renderers.DeepSeekV41("max"),
    "deepseekv4_1_disable_thinking": renderers.DeepSeekV41.chat,
    "glm5_3_max_reasoning": lambda: renderers.Glm53(clear_thinking=False),
    "glm5_3_high_reasoning": lambda: renderers.Glm53("high", False),
    "glm5_3_low_reasoning": lambda: renderers.Glm53("low", False),
    "kimi_k2": renderers.KimiK2,
    "kimi_k25": renderers.KimiK25,
    "kimi_k25_disable_thinking": renderers.KimiK25.disable_thinking,
    "kimi_k26": renderers.KimiK25,
    "kimi_k26_disable_thinking": renderers.KimiK25.disable_thinking,
    "kimi_k26_preserve_thinking": renderers.KimiK25.preserve_thinking_history,
    "nemotron3": renderers.Nemotron3,
    "nemotron3_low_thinking": renderers.Nemotron3.low,
    "nemotron3_disable_thinking": renderers.Nemotron3.disable_thinking,
    "nemotron3_preserve_thinking": renderers.Nemotron3.preserve_thinking_history,
    "nemotron3_ultra": renderers.Nemotron3.ultra,
    "nemotron3_ultra_disable_thinking": renderers.Nemotron3.ultra_disable_thinking,
    "nemotron3_ultra_medium_thinking": renderers.Nemotron3.ultra_medium,
    "nemotron3_ultra_preserve_thinking": renderers.Nemotron3.ultra_preserve_thinking_history,
    "gpt_oss_low_reasoning": lambda: renderers.GptOss.low(oracle.DATE),
    "gpt_oss_medium_reasoning": lambda: renderers.GptOss.medium(oracle.DATE),
    "gpt_oss_high_reasoning": lambda: renderers.GptOss.high(oracle.DATE),
}


def calls_of(messages):
    return [each["function"] for message in messages for each in message.get("tool_calls", [])]


def parts_of(messages):
    """Texts and thoughts."""
    contents = [message["content"] for message in messages]
    return [part for content in contents for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)]


def texts_of(messages):
    return [part[part["type"]] for part in parts_of(messages)]


def thoughts_of(messages):
    return [part["thinking"] for part in parts_of(messages) if part["type"] == "thinking"]


def is_object(arguments):
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def has_nested(arguments):
    return any(isinstance(value, (dict, list)) for value in json.loads(arguments).values())


def has_calls_with(messages, text):
    return any(message.get("tool_calls") and bool(text) == any(map(str.strip, texts_of([message]))) for message in messages)


def follows_users(messages):
    before = [None] + [message["role"] for message in messages]
    return all(role in ("user", "tool") for role, message in zip(before, messages) if message["role"] == "assistant")


def ends_with(messages, *roles):
    return bool(messages) and messages[-1]["role"] in roles


def users(messages):
    return [message for message in messages if message["role"] == "user"]


CONTROLS = ("<|", "<｜", "<think>")
XML_CALLS = ("qwen3_5", "qwen3_8", "nemotron3")
KIMI_2 = ("kimi_k25", "kimi_k26")
EFFORTS = ("nemotron3_low_thinking", "nemotron3_ultra_medium_thinking")
# What the wheel does, the renderers of which it does it, and to which conversations.
DIFFERENCES = [
    ("takes control tokens in a text as text", (), lambda given: any(mark in text for text in texts_of(given) for mark in CONTROLS)),
    ("joins neighbours of the same author", (), lambda given: any(a["role"] == b["role"] == "user" for a, b in zip(given, given[1:]))),
    ("takes no other roles", (), lambda given: any(message["role"] in ("developer", "critic") for message in given)),
    ("refuses arguments that are no object", (), lambda given: not all(is_object(call["arguments"]) for call in calls_of(given))),
    ("does not escape arguments", ("qwen3", "deepseekv3"), lambda given: not all(call["arguments"].isascii() for call in calls_of(given))),
    ("strips thoughts", ("qwen3_8", "nemotron3", "gpt_oss"), lambda given: any(thought != thought.strip() for thought in thoughts_of(given))),
    ("keeps an empty thought", ("qwen3_8",), lambda given: "" in thoughts_of(given)),
    ("writes a kept thought without newlines", ("qwen3_5_preserve_thinking",), thoughts_of),
    ("joins parts", ("deepseek", "gpt_oss", "kimi_k2", *EFFORTS), lambda given: any(isinstance(one["content"], list) for one in users(given))),
    ("has no empty line before calls", XML_CALLS, lambda given: has_calls_with(given, text=True)),
    ("has no newline before calls alone", ("qwen3_vl", "nemotron3_ultra"), lambda given: has_calls_with(given, text=False)),
    ("splits tokens otherwise behind an answer", ("qwen3_5", "qwen3_8"), lambda given: ends_with(given, "assistant")),
    ("opens an empty thought otherwise", ("nemotron3_ultra",), lambda given: ends_with(given, "assistant")),
    ("ends a message before its calls", ("deepseekv3",), calls_of),
    ("answers only users", ("deepseekv3", "glm"), lambda given: not ends_with(given, "user", "tool")),
    ("opens an answer behind a user alone", ("deepseekv3",), lambda given: not follows_users(given)),
    ("drops the thoughts of calls", ("kimi_k25_disable", "kimi_k26_disable"), lambda given: thoughts_of(given) and calls_of(given)),
    ("takes a late system message", ("deepseekv3",), lambda given: any(one["role"] == "system" for one in given[1:])),
    ("refuses a late system message", ("gpt_oss",), lambda given: any(one["role"] == "system" for one in given[1:])),
    ("keeps results in their order", ("glm",), lambda given: sum(one["role"] == "tool" for one in given) > 1),
    ("writes nested arguments without spaces", XML_CALLS, lambda given: any(has_nested(call["arguments"]) for call in calls_of(given))),
    ("joins a system message and an answer", ("deepseekv4",), lambda given: [one["role"] for one in given[:2]] == ["system", "assistant"]),
    ("wants ids of calls", ("kimi",), lambda given: any(call["id"] is None for one in given for call in one.get("tool_calls", []))),
    ("has no system message of its own", KIMI_2, lambda given: not given or given[0]["role"] != "system"),
    ("writes the effort behind a stripped text", EFFORTS, lambda given: any(text != text.strip() or not text for text in texts_of(given))),
    ("drops earlier thoughts", ("gpt_oss",), thoughts_of),
    ("writes calls and results otherwise", ("gpt_oss",), calls_of),
    ("has no empty instructions", ("gpt_oss",), lambda given: "" in texts_of(given[:1])),
    ("ends an answer with <|end|>", ("gpt_oss",), lambda given: ends_with(given, "assistant")),
]


def difference_for(name, given):
    about = (why for why, prefixes, applies in DIFFERENCES if name.startswith(prefixes or name) and applies(given))
    return next(about, None)


def wheel_prompt(renderer, messages):
    spans, parser = renderer.render_for_completion(chat.OpenAIMessage.from_oss_messages(messages))
    return [token for span in spans for token in span.span.tokens], parser


def same_answer(ours, theirs):
    """Texts, thoughts and calls, in which white space around them and ids do not count."""

    def compared(messages):
        joined = {kind: "".join(part[kind] for part in parts_of(messages) if part["type"] == kind).strip() for kind in ("text", "thinking")}
        return joined, [(call["name"], json.loads(call["arguments"])) for call in calls_of(messages)]

    return compared(ours) == compared(theirs)


def conversations():
    """All there are, and with a system message those that have none."""
    for name, messages in (SHARED | MORE).items():
        yield name, messages
        if all(message["role"] != "system" for message in messages):
            yield f"{name}, system", [{"role": "system", "content": "Be brief."}, *messages]


class Comparison:
    def __init__(self):
        self.agreed = []
        self.left_out = collections.Counter()
        self.answers = 0
        self.wrong = []

    def compare(self, name, model, conversation, messages):
        given = messages[:-1]
        if why := difference_for(name, given):
            self.left_out[why] += 1
            return
        entry = make_goldens.entry_of(name, model, conversation, messages)
        ours = entry.get("generation_prompt_tokens")
        theirs, parser = wheel_prompt(MAKERS[name](), given)
        if ours != theirs:
            decode = oracle.tokenizer(model).decode
            self.wrong.append(f"{name}, {conversation}\n  cookbook {decode(ours or [])!r}\n  wheel    {decode(theirs)!r}")
            return
        self.agreed.append(make_goldens.header(name, model, conversation) | {"messages": messages, "generation_prompt_tokens": theirs})
        if messages[-1]["role"] == "assistant" and not difference_for(name, messages):
            self.compare_answer(entry, parser)

    def compare_answer(self, entry, parser):
        answer = entry.get("parse_roundtrip", {}).get("message")
        if answer is None or not (any(texts_of([answer])) or calls_of([answer])):
            return  # the wheel reports answers with nothing in them
        tokens = entry["supervised"][make_goldens.LAST_MESSAGE]["tokens"][len(entry["generation_prompt_tokens"]) :]
        try:
            read = chat.OpenAIMessage.to_oss_messages(chat.OpenAIMessage.from_messages(parser.parse_tokens(tokens)))
        except ValueError as error:
            read = [{"role": "assistant", "content": str(error)}]
        self.answers += 1
        if not same_answer([answer], read):
            self.wrong.append(f"{entry['renderer']}, {entry['conversation']}\n  cookbook reads {answer}\n  wheel reads    {read}")


def main(path):
    comparison = Comparison()
    for name, model in oracle.PAIRS:
        for conversation, messages in conversations():
            if name in MAKERS:
                comparison.compare(name, model, conversation, messages)
    make_goldens.write(Path(path), comparison.agreed)
    for why, count in comparison.left_out.most_common():
        print(f"{count:5} left out: the wheel {why}")
    for each in comparison.wrong:
        print(each)
    print(f"{len(comparison.agreed)} prompts and {comparison.answers} answers are the same, {len(comparison.wrong)} differences")
    return 1 if comparison.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
