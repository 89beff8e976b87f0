"""The work of the render benchmarks done by the official Python: renderers of tinker-cookbook, and jinja2 set up as transformers does it.

    render_peer.py render RENDERER MODEL CONVERSATIONS    conversations to tokens, one after the other, and their JSON lines to data
    render_peer.py jinja TEMPLATE CONVERSATIONS           conversations to text
    render_peer.py conversations FILE [COUNT]             writes FILE: a JSON line for each conversation, always the same ones

CONVERSATIONS is such a FILE. A JSON line for each measurement: what, its best seconds, tokens or characters of text, and the library of the
tokenizer: transformers, as the cookbook has it, or, for models without a tokenizer.json here, that of the wheel tml-renderers, which is
faster. Run with the Python of `./dev check render`; PyTorch is not there, and is not needed for this work.
"""

import json
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "render"), str(ROOT / "tests" / "jinja")]

REPETITIONS = 3
COUNT = 1000
WORDS = "the model reads a long question and answers with what it knows of rivers, prime numbers, C++ templates, été, 東京 or 3.14159".split()


def text(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words)) + rng.choice([".", "?", "\n\n- one\n- two\n", "\n```cpp\nint x = 0;\n```"])


def call(rng, number):
    arguments = json.dumps({"city": rng.choice(["Paris", "Oslo"]), "days": rng.randint(1, 9)})
    return {"type": "function", "id": f"functions.get_weather:{number}", "function": {"name": "get_weather", "arguments": arguments}}


def conversation(rng):
    """A system message in half of them, two to six turns, a tool in a fifth of the turns."""
    messages = [{"role": "system", "content": text(rng, 20)}] if rng.random() < 0.5 else []
    for turn in range(rng.randint(2, 6)):
        messages.append({"role": "user", "content": text(rng, rng.randint(5, 80))})
        if rng.random() < 0.2:
            asked = call(rng, turn)
            messages.append({"role": "assistant", "content": text(rng, 8), "tool_calls": [asked]})
            messages.append({"role": "tool", "content": text(rng, 20), "tool_call_id": asked["id"], "name": "get_weather"})
        messages.append({"role": "assistant", "content": text(rng, rng.randint(20, 200))})
    return messages


def write_conversations(path, count=COUNT):
    rng = random.Random(19)
    lines = (json.dumps({"messages": conversation(rng)}, ensure_ascii=False) + "\n" for _ in range(int(count)))
    Path(path).write_text("".join(lines))


def read_conversations(path):
    return [json.loads(line)["messages"] for line in Path(path).read_text().splitlines()]


def measure(what, unit, work, **more):
    """`work` gives how much it made."""
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        made = work()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"what": what, "seconds": min(seconds), unit: made, **more}), flush=True)


def official_renderer(name, model):
    """With the library of its tokenizer."""
    import oracle
    import transformers

    path = oracle.FOLDER / model / "tokenizer.json"
    if not path.exists() or name == "tml_v0":
        return oracle.renderer(name, model), "tml-renderers"
    ends = {key: value for key in ("bos_token", "eos_token") if (value := getattr(oracle.tokenizer(model), key))}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), **ends)
    return oracle.official.get_renderer(name, tokenizer, model_name=model), f"transformers {transformers.__version__}"


def bench_renderer(name, model, path):
    renderer, library = official_renderer(name, model)
    import oracle

    mode = oracle.official.TrainOnWhat.ALL_ASSISTANT_MESSAGES
    # As a program has them: objects, not JSON.
    conversations = [oracle.official_messages(messages) for messages in read_conversations(path)]

    def prompts():
        return sum(renderer.build_generation_prompt(messages[:-1]).length for messages in conversations)

    def examples():
        return sum(renderer.build_supervised_example(messages, train_on_what=mode)[0].length for messages in conversations)

    def data():
        made = 0
        for line in Path(path).read_text().splitlines():
            messages = oracle.official_messages(json.loads(line)["messages"])
            example = renderer.build_supervised_example(messages, train_on_what=mode)
            made += oracle.datum_from_model_input_weights(*example, max_length=None, reduction="mean").model_input.length
        return made

    measure(f"prompt {name}", "tokens", prompts, tokenizer=library)
    measure(f"example {name}", "tokens", examples, tokenizer=library)
    measure(f"data {name}", "tokens", data, tokenizer=library)


def bench_jinja(template, path):
    import compare

    conversations = read_conversations(path)
    made = compare.environment().from_string(Path(template).read_bytes().decode())

    def render(messages):
        return made.render(messages=messages, tools=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")

    measure(f"jinja {Path(template).stem}", "characters", lambda: sum(len(render(messages)) for messages in conversations))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"render": bench_renderer, "jinja": bench_jinja, "conversations": write_conversations}[command](*arguments)
