"""Small data sets in the form of those that the recipes name, in folders of the same names.

`datasets.load_dataset` takes a folder of the name it is given, below the current one, before it asks the hub.
"""

import json
import random


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def sums(numbers, count):
    """Conversations in the form that the arithmetic environment asks in."""
    for _ in range(count):
        x, y = numbers.randint(0, 100), numbers.randint(0, 100)
        example = [user("What is 4 + 5?"), assistant("9")]
        yield {"messages": [*example, user(f"What is {x} + {y}?"), assistant(str(x + y))]}


def guesses(numbers, count, system_prompt):
    """The first turns of the game that guess_number plays, in which the one who guesses is called a player."""
    for _ in range(count):
        turns = [{"role": "system", "content": system_prompt}]
        for _ in range(numbers.randint(0, 2)):
            turns += [{"role": "player", "content": f"Guess: {numbers.randint(0, 1024)}"}]
            turns += [user(numbers.choice(["Too low", "Too high"]))]
        yield {"messages": [*turns, assistant(f"Guess: {numbers.randint(0, 1024)}")]}


def preferences(numbers, count):
    """Short answers are preferred to long ones."""
    for _ in range(count):
        x, y = numbers.randint(0, 100), numbers.randint(0, 100)
        question = f"\n\nHuman: What is {x} + {y}?\n\nAssistant:"
        yield {"chosen": f"{question} {x + y}", "rejected": f"{question} I would rather not say"}


def word_problems(numbers, count):
    for _ in range(count):
        x, y = numbers.randint(1, 9), numbers.randint(1, 9)
        yield {"question": f"Ann has {x} pens and buys {y}. How many has she?", "answer": f"{x} + {y}\n#### {x + y}"}


def write_all(folder, system_prompt):
    numbers = random.Random(18)
    write_rows(folder / "HuggingFaceH4/no_robots/train.jsonl", sums(numbers, 640))
    write_rows(folder / "HuggingFaceH4/no_robots/test.jsonl", sums(numbers, 32))
    write_rows(folder / "guesses.jsonl", guesses(numbers, 320, system_prompt))
    write_rows(folder / "Anthropic/hh-rlhf/train.jsonl", preferences(numbers, 256))
    write_rows(folder / "Anthropic/hh-rlhf/test.jsonl", preferences(numbers, 16))
    write_rows(folder / "openai/gsm8k/train.jsonl", word_problems(numbers, 64))
    write_rows(folder / "openai/gsm8k/test.jsonl", word_problems(numbers, 16))
    (folder / "openai/gsm8k/README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n"
        "  - split: train\n    path: train.jsonl\n  - split: test\n    path: test.jsonl\n---\n"
    )
    questions = ({"question": row["messages"][-2]["content"]} for row in sums(numbers, 256))
    write_rows(folder / "zwhe99/DeepMath-103K/train.jsonl", questions)
