"""A language model one can train in a test: the next byte depends on the last one only.

A table of logits, a row per last byte, all of it trained; losses as functions of the logprobs of the targets.
"""

import copy
import math

VOCABULARY = 256
PRINTABLE = range(32, 127)


def softmax_log(row):
    top = max(row)
    total = top + math.log(math.fsum(math.exp(x - top) for x in row))
    return [x - total for x in row]


class Bigram:
    def __init__(self):
        self.rows = {}  # last byte -> logits; as in a fresh model where there is none
        self.moments = {}  # last byte -> (mean, mean of squares)
        self.steps = 0
        self.gradients = {}

    @staticmethod
    def fresh_row():
        return [0.0 if token in PRINTABLE else -6.0 for token in range(VOCABULARY)]

    def snapshot(self):
        out = copy.deepcopy(self)
        out.gradients = {}
        return out

    def without_optimizer(self):
        out = self.snapshot()
        out.moments, out.steps = {}, 0
        return out

    def logprobs(self, last):
        return softmax_log(self.rows.get(last) or self.fresh_row())

    def add_gradient(self, last, target, slope):
        """`slope` is d loss / d logprob of `target` after `last`."""
        if slope == 0:
            return
        row = self.gradients.setdefault(last, [0.0] * VOCABULARY)
        for token, logprob in enumerate(self.logprobs(last)):
            row[token] -= slope * math.exp(logprob)
        row[target] += slope

    def adam_step(self, learning_rate=1e-4, beta1=0.9, beta2=0.95, eps=1e-12, **_):
        """AdamW; returns the norm of the gradient."""
        self.steps += 1
        norm = 0.0
        for last, gradient in self.gradients.items():
            mean, square = self.moments.setdefault(last, ([0.0] * VOCABULARY, [0.0] * VOCABULARY))
            row = self.rows.setdefault(last, self.fresh_row())
            for i, g in enumerate(gradient):
                norm += g * g
                mean[i] = beta1 * mean[i] + (1 - beta1) * g
                square[i] = beta2 * square[i] + (1 - beta2) * g * g
                unbiased = mean[i] / (1 - beta1**self.steps)
                row[i] -= learning_rate * unbiased / (math.sqrt(square[i] / (1 - beta2**self.steps)) + eps)
        self.gradients = {}
        return math.sqrt(norm)


def loss_and_slope(name, logprob, inputs, i, config):
    """The loss of one target and its derivative by the logprob; KeyError where an input is missing."""
    if name == "cross_entropy":
        weight = inputs["weights"][i] if "weights" in inputs else 1.0
        return (-weight * logprob if weight else 0.0), -weight
    if name == "custom":  # its graph is the client's concern here
        return 0.0, 0.0
    advantage = inputs["advantages"][i]
    ratio = math.exp(logprob - inputs["logprobs"][i])
    if name == "importance_sampling":
        return -ratio * advantage, -ratio * advantage
    if name == "ppo":
        low, high = config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2)
        clipped = min(max(ratio, low), high)
        if ratio * advantage <= clipped * advantage:
            return -ratio * advantage, -ratio * advantage
        return -clipped * advantage, 0.0
    raise ValueError(f"this server has no loss '{name}'")
