"""asample: every read-out of the protocol, from the toy model."""

import math
import random

import proto
from http1 import Response
from model import HIGHEST_TOKEN, VOCABULARY

STOP, LENGTH = 0, 1
NOTHING = float("nan")


class Refused(ValueError):
    """The request asks for what cannot be drawn."""


def check_sample(body, context_length):
    params = body["sampling_params"]
    tokens = [token for chunk in body["prompt"]["chunks"] for token in chunk.get("tokens", [])]
    if body["num_samples"] < 1 or params["temperature"] < 0 or params.get("max_tokens", 1) < 1:
        raise Refused("num_samples and max_tokens are at least 1, temperature at least 0")
    if len(tokens) > context_length:
        raise Refused(f"a prompt of {len(tokens)} tokens is longer than the context, {context_length}")
    if any(not 0 <= token < HIGHEST_TOKEN for token in tokens):
        raise Refused("there is no such token")


def draw(logprobs, params, rng):
    if params["temperature"] == 0:
        return max(range(VOCABULARY), key=logprobs.__getitem__)
    top = max(logprobs)
    weights = [math.exp((x - top) / params["temperature"]) for x in logprobs]
    if params["top_k"] <= 0 and params["top_p"] >= 1:
        return rng.choices(range(VOCABULARY), weights)[0]
    ranked = sorted(range(VOCABULARY), key=lambda token: -weights[token])
    kept, share, total = [], 0.0, math.fsum(weights)
    for token in ranked[: params["top_k"] if params["top_k"] > 0 else VOCABULARY]:
        if kept and share >= params["top_p"] * total:
            break
        kept.append(token)
        share += weights[token]
    return rng.choices(kept, [weights[token] for token in kept])[0]


def is_stopped(tokens, stop):
    if stop and isinstance(stop[0], int):
        return tokens[-1] in stop
    return any(bytes(tokens).endswith(text.encode()) for text in stop)


def top(logprobs, k):
    best = sorted(range(VOCABULARY), key=lambda token: -logprobs[token])[:k]
    return best, [logprobs[token] for token in best]


def topk_message(rows, k):
    ids = b"".join(proto.int32s(tokens) for tokens, _ in rows)
    values = b"".join(proto.floats(logprobs) for _, logprobs in rows)
    return proto.data(1, ids) + proto.data(2, values) + proto.number(3, k) + proto.number(4, len(rows))


def sequence(model, last, params, k, rng):
    stop = params.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    tokens, logprobs, rows, reason = [], [], [], LENGTH
    for _ in range(params.get("max_tokens", 32)):
        row = model.logprobs(last)
        last = draw(row, params, rng)
        tokens.append(last)
        logprobs.append(row[last])
        rows.append(top(row, k))
        if is_stopped(tokens, stop):
            reason = STOP
            break
    out = proto.number(1, reason) + proto.data(2, proto.int32s(tokens)) + proto.data(3, proto.floats(logprobs))
    return out + (proto.data(4, topk_message(rows, k)) if k else b"")


def prompt_readouts(model, prompt, body, rng):
    """The fields of the response that are about the prompt."""
    out = b""
    rows = [None] + [model.logprobs(last) for last in prompt[:-1]]
    first = len(prompt) - body["prompt_logprobs_last_n"] if body.get("prompt_logprobs_last_n") else 1
    if body["prompt_logprobs"]:
        values = [rows[i][prompt[i]] if i >= first else NOTHING for i in range(len(prompt))]
        out += proto.data(2, proto.floats(values))
    if k := body["topk_prompt_logprobs"]:
        padding = [0] * k, [-99999.0] * k
        out += proto.data(3, topk_message([top(row, k) if i >= first else padding for i, row in enumerate(rows)], k))
    if wanted := body.get("target_prompt_logprobs"):
        if "sparse_crow_indices" in wanted:
            ends, columns = wanted["sparse_crow_indices"], wanted["sparse_col_indices"]
            position = [row + 1 for row in range(len(ends) - 1) for _ in range(ends[row], ends[row + 1])]
            values = [rows[i][token] for i, token in zip(position, wanted["data"])]
            sparse = proto.data(1, proto.floats(values)) + proto.data(2, proto.int64s(ends))
            sparse += proto.data(3, proto.int64s(columns))
            shape = b"".join(proto.number(4, size) for size in wanted["shape"])
            out += proto.data(5, proto.data(2, sparse) + proto.number(3, proto.FLOAT32) + shape)
        else:
            width = wanted["shape"][1]
            values = [rows[i // width + 1][t] if t >= 0 else 0.0 for i, t in enumerate(wanted["data"])]
            out += proto.data(5, proto.tensor(proto.floats(values), proto.FLOAT32, wanted["shape"]))
    if k := body["prompt_alt_tokens_k"]:
        tokens = [draw(row, body["sampling_params"], rng) for row in rows[1:] for _ in range(k)]
        logprobs = [rows[i // k + 1][token] for i, token in enumerate(tokens)]
        shape = [len(prompt) - 1, k]
        pair = proto.data(1, proto.tensor(proto.int64s(tokens), proto.INT64, shape))
        pair += proto.data(2, proto.tensor(proto.floats(logprobs), proto.FLOAT32, shape))
        out += proto.data(6, pair)
    return out


def sample_response(model, body):
    params = body["sampling_params"]
    prompt = [token % VOCABULARY for chunk in body["prompt"]["chunks"] for token in chunk.get("tokens", [])]
    seed = params.get("seed", body["seq_id"])
    out = prompt_readouts(model, prompt, body, random.Random(seed))
    for i in range(body["num_samples"]):
        rng = random.Random(seed * 1_000_003 + i)
        last = prompt[-1] if prompt else 0
        out += proto.data(1, sequence(model, last, params, body["topk_sample_logprobs"], rng))
    return Response(out, content_type="application/x-protobuf")
