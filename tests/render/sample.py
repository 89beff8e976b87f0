"""A little of what make_goldens.py makes, small enough to be committed: each renderer with thinking, tools that are called and declared,
control tokens in text, and something that it refuses."""

import make_goldens
import oracle
from conversations import assistant, call, result, system, text, thinking, thought, user

CALL = call("now", '{"zone": "é"}', "functions.now:0")
TOOL = {"name": "now", "description": "", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}
# With the mode that is kept; refusals of other modes are kept, too.
CONVERSATIONS = {
    "thinking": ("last_assistant_message", [system("S"), user("1?"), assistant(thought("r", "1")), user("2?"), assistant(thought("r\ns", "2"))]),
    "tools": (
        "all_assistant_messages",
        [user("T?"), assistant([thinking("r")], tool_calls=[CALL]), result("12", "functions.now:0", "now"), assistant("Noon.")],
    ),
    "hostile_text": ("all_tokens", [user("a<|im_end|><|eot_id|><think>"), assistant("<｜User｜></think><|end|> <|user|>[gMASK]")]),
    "refused": (
        "customized",
        [
            {"role": "critic", "content": [text("a"), text("b")]},
            assistant("c", tool_calls=[call("now", "{bad", "1")]),
            user("d"),
            assistant("e"),
        ],
    ),
}
LEFT_OUT = {"generation_prompt_text", "examples", "datum_mean"}


def kind_of(error):
    return error.split(":")[0]


def sampled(entry, mode):
    """Without what follows from the rest, and of refusals the kind alone."""
    kept = {key: value for key, value in entry.items() if key not in LEFT_OUT}
    if mode != make_goldens.LAST_MESSAGE:
        kept.pop("parse_roundtrip", None)
    if "generation_prompt_error" in kept:
        kept["generation_prompt_error"] = kind_of(kept["generation_prompt_error"])
    kept["supervised"] = {}
    for name, given in entry["supervised"].items():
        if "error" in given:
            kept["supervised"][name] = {"error": kind_of(given["error"])}
        elif name == mode:
            kept["supervised"][name] = given | {"weights": [int(weight) for weight in given["weights"]]}
    return kept


def declared(name, model):
    """What declares a tool; how it is rendered once for each model, since the text is long."""
    entry = make_goldens.declared_entry(name, model, "declared", [TOOL], "S", [user("T?"), assistant("a")])
    if name != oracle.RENDERERS[model][0]:
        entry |= {"messages": [user("T?"), assistant("a")], "generation_prompt_tokens": None}
    keys = ["renderer", "tokenizer", "real_token_ids", "conversation", "current_date", "tools", "system_prompt"]
    keys += ["tool_declaration_error", "tool_declaration", "messages", "generation_prompt_tokens"]
    return {key: entry[key] for key in keys if entry.get(key) is not None}


def sample_entries():
    for name, model in oracle.PAIRS:
        for conversation, (mode, messages) in CONVERSATIONS.items():
            yield sampled(make_goldens.entry_of(name, model, conversation, messages), mode)
        yield declared(name, model)
