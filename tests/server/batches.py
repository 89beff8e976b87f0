"""Small batches, and what their losses must be."""

import math

import numpy as np
from tinker import types

LEARNING_RATE = 1e-2
ADAM = types.AdamParams(learning_rate=LEARNING_RATE)
# No token twice in a row: attention cannot count what is all the same.
SENTENCES = ([5, 9, 2, 7, 11, 3], [8, 20, 1, 4], [6, 10, 12, 13, 14, 15, 16, 17])


def text(*tokens):
    return types.ModelInput.from_ints(list(tokens))


def datum(tokens, weights=None, **inputs):
    """Each token of the input predicts the next; all of them count unless `weights` says otherwise."""
    given = {"target_tokens": list(tokens[1:]), "weights": weights or [1.0] * (len(tokens) - 1), **inputs}
    return types.Datum(model_input=text(*tokens[:-1]), loss_fn_inputs={k: v for k, v in given.items() if v is not None})


def batch():
    return [datum(tokens) for tokens in SENTENCES]


def policy_datum(tokens, old_logprobs, advantages, **inputs):
    given = {"target_tokens": list(tokens[1:]), "logprobs": list(old_logprobs), "advantages": list(advantages), **inputs}
    return types.Datum(model_input=text(*tokens[:-1]), loss_fn_inputs=given)


def logprobs(output):
    """Per datum, as arrays."""
    return [np.asarray(out["logprobs"].data).reshape(out["logprobs"].shape or -1) for out in output.loss_fn_outputs]


def elementwise(output):
    """The loss of each token, per datum."""
    return [np.asarray(out["elementwise_loss"].data) for out in output.loss_fn_outputs]


def same(left, right):
    """Bit for bit."""
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def weighted_loss(data, output):
    """cross_entropy: -sum(w * logprob)."""
    rows = zip(data, logprobs(output), strict=True)
    return -math.fsum(
        w * p for d, row in rows for w, p in zip(d.loss_fn_inputs["weights"].data, row.flatten().tolist(), strict=True)
    )


def train(training, steps, data=None):
    """The loss before each step."""
    losses = []
    for _ in range(steps):
        output = training.forward_backward(data or batch(), "cross_entropy")
        step = training.optim_step(ADAM)
        losses.append(output.result().metrics["loss:sum"])
        step.result()
    return losses


def fingerprint(training):
    """What the model says of the batch: equal for equal weights, and for no others that occur here."""
    return logprobs(training.forward(batch(), "cross_entropy").result())
