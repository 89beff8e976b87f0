"""What the official renderers make of conversations and responses, for render_golden_test.

    make_goldens.py FOLDER [--shared FILE]   FOLDER/goldens.json, which has what FILE has, or this fails, and FOLDER/parses.json
    make_goldens.py --sample FOLDER          FOLDER/sample.json: a little of everything, to be committed

Run with the Python of `./dev check render`.
"""

import argparse
import json
import sys
from pathlib import Path

import oracle
from conversations import DECLARATIONS, MORE, SHARED
from responses import responses_of

LAST_MESSAGE = "last_assistant_message"
MODES = [LAST_MESSAGE, "last_assistant_turn", "all_assistant_messages", "all_messages", "all_tokens", "all_user_and_system_messages"]
SPLIT_MODES = MODES[:3]


def refusal(error):
    # Assertions and panics of the wheel are refusals, too.
    return {"error": f"{type(error).__name__}: {error}"[:160]}


def weight_runs(renderer, tokens, weights):
    runs = []
    for token, weight in zip(tokens, weights):
        if not runs or runs[-1][0] != weight:
            runs.append([weight, []])
        runs[-1][1].append(token)
    return [[weight, str(renderer.tokenizer.decode(run))] for weight, run in runs]


def supervised(renderer, messages, mode):
    """The entry, and what it is of."""
    try:
        made = renderer.build_supervised_example(oracle.official_messages(messages), train_on_what=oracle.official.TrainOnWhat(mode))
    except BaseException as error:
        return refusal(error), None
    tokens, weights = made[0].to_ints(), [float(weight) for weight in made[1].tolist()]
    return {"weight_runs": weight_runs(renderer, tokens, weights), "tokens": tokens, "weights": weights}, made


def split_examples(renderer, messages, mode):
    try:
        made = renderer.build_supervised_examples(oracle.official_messages(messages), train_on_what=oracle.official.TrainOnWhat(mode))
    except BaseException as error:
        return refusal(error)
    return [{"tokens": given.to_ints(), "weights": [float(weight) for weight in weights.tolist()]} for given, weights in made]


def parsed(renderer, tokens):
    try:
        message, termination = renderer.parse_response(list(tokens))
    except BaseException as error:
        return refusal(error)
    return {"message": oracle.base.message_to_jsonable(message), "termination": termination.value}


def datum_of(made):
    try:
        datum = oracle.datum_from_model_input_weights(made[0], oracle.tensor(made[1]), None, reduction="mean")
    except BaseException as error:
        return {"datum_error": refusal(error)["error"]}
    inputs = datum.loss_fn_inputs
    weights = [round(weight, 9) for weight in inputs["weights"].data]
    return {"datum_mean": {"input": datum.model_input.to_ints(), "target_tokens": list(inputs["target_tokens"].data), "weights": weights}}


def prompt_of(renderer, messages):
    try:
        tokens = renderer.build_generation_prompt(oracle.official_messages(messages)).to_ints()
    except BaseException as error:
        return {"generation_prompt_error": refusal(error)["error"]}
    return {"generation_prompt_text": str(renderer.tokenizer.decode(tokens)), "generation_prompt_tokens": tokens}


def answer_of(renderer, entry, message):
    """How the last message begins, and is read back."""
    tokens, prompt = entry["supervised"][LAST_MESSAGE].get("tokens"), entry.get("generation_prompt_tokens")
    if tokens is None or prompt is None:
        return {}
    if tokens[: len(prompt)] != prompt:
        return {"observation_equals_generation_prompt": False}
    back = parsed(renderer, tokens[len(prompt) :])
    if "message" in back:
        back["equals"] = back["message"] == message
    return {"observation_equals_generation_prompt": True, "parse_roundtrip": back}


def header(name, model, conversation):
    out = {"renderer": name, "tokenizer": model, "real_token_ids": True, "conversation": conversation}
    if oracle.is_told_the_date(name):
        out["current_date"] = oracle.DATE
    return out


def entry_of(name, model, conversation, messages, **more):
    renderer = oracle.renderer(name, model)
    out = header(name, model, conversation) | more | {"messages": messages}
    out |= {"has_extension_property": renderer.has_extension_property, "stop": renderer.get_stop_sequences()}
    out |= prompt_of(renderer, messages[:-1])
    out["supervised"], made = {}, {}
    for mode in MODES:
        out["supervised"][mode], made[mode] = supervised(renderer, messages, mode)
    # Messages 1, 3, 5 and so on.
    chosen = [{**message, "trainable": i % 2 == 1} for i, message in enumerate(messages)]
    out["supervised"]["customized"], _ = supervised(renderer, chosen, "customized")
    out["examples"] = {mode: split_examples(renderer, messages, mode) for mode in SPLIT_MODES}
    out |= answer_of(renderer, out, messages[-1])
    if made[LAST_MESSAGE]:
        out |= datum_of(made[LAST_MESSAGE])
    return out


def declared_entry(name, model, conversation, tools, prompt, messages):
    """Begins with what tells the model of tools."""
    more = {"tools": tools, "system_prompt": prompt}
    try:
        prefix = oracle.renderer(name, model).create_conversation_prefix_with_tools(tools, prompt)
    except BaseException as error:
        return header(name, model, conversation) | more | {"tool_declaration_error": refusal(error)["error"]}
    prefix = [dict(message) for message in prefix]
    return entry_of(name, model, conversation, prefix + messages, **more, tool_declaration=prefix)


def entries(conversations, declarations=()):
    for name, model in oracle.PAIRS:
        for conversation, messages in conversations.items():
            yield entry_of(name, model, conversation, messages)
        for conversation, tools, prompt in declarations:
            yield declared_entry(name, model, conversation, tools, prompt, MORE["tools_thinking"])


def response_entries():
    for name, model in oracle.PAIRS:
        renderer = oracle.renderer(name, model)
        stop = renderer.get_stop_sequences()[0]
        end = stop if isinstance(stop, str) else renderer.tokenizer.decode([stop])
        for response in responses_of(name):
            text = response.replace("{END}", end).replace("{EOS}", renderer.tokenizer.eos_token or "")
            tokens = oracle.encode(text, model)
            yield {"renderer": name, "tokenizer": model, "text": text, "tokens": tokens, **parsed(renderer, tokens)}


def write(path, rows):
    """An array with a line for each."""
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{path}: {len(lines)} entries, {path.stat().st_size / 1e6:.2f} MB")


def differences(ours, theirs):
    """Entries of the shared file that come out otherwise; what it does not have is not asked for."""
    made = {(row["renderer"], row["tokenizer"], row["conversation"]): row for row in ours}
    for entry in theirs:
        key = entry["renderer"], entry["tokenizer"], entry["conversation"]
        for member, value in entry.items():
            if not same(value, made.get(key, {}).get(member)):
                yield key, member


def same(theirs, ours):
    """Of objects, the members that theirs has; numbers are rounded there."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(same(value, ours.get(key)) for key, value in theirs.items())
    if isinstance(theirs, float) and isinstance(ours, float):
        return abs(theirs - ours) < 1e-6
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(same, theirs, ours))
    return theirs == ours


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--sample", action="store_true")
    arguments = parser.parse_args()
    if arguments.sample:
        from sample import sample_entries

        write(arguments.folder / "sample.json", sample_entries())
        return 0
    shared = list(entries(SHARED))
    write(arguments.folder / "goldens.json", [*shared, *entries(MORE, DECLARATIONS)])
    write(arguments.folder / "parses.json", response_entries())
    if not arguments.shared or not arguments.shared.exists():
        print("not compared with the shared goldens, which are not here")
        return 0
    theirs = json.loads(arguments.shared.read_text())
    found = list(differences(shared, theirs))
    for key, member in found:
        print(f"differs from {arguments.shared}: {member} of {key}")
    print(f"{len(theirs)} shared goldens, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
