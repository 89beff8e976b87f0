"""What engine_bench and its peers have in common: the tokens they are given, and how they report."""

import json

RANK = 16
PREFILL_TOKENS = 512
PROMPT_TOKENS, NEW_TOKENS = 32, 32
PREFILL_PROMPT, DECODE_PROMPT = 1000, 2000  # the first of them


def tokens_of(sequence, count, vocabulary):
    state, tokens = sequence * 7919 + 1, []
    for _ in range(count):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        tokens.append((state >> 8) % vocabulary)
    return tokens


def batches_of(text):
    """Of --batches 1,8,64"""
    return [int(batch) for batch in text.split(",")]


def report(what, **numbers):
    print(json.dumps({"what": what, **numbers}), flush=True)


def peak_megabytes():
    """Of this process alone: what getrusage says begins with the memory of the parent."""
    with open("/proc/self/status") as status:
        kilobytes = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    return int(kilobytes) * 1024e-6
