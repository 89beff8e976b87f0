"""A language model one can train in a test: the next byte depends on the last one only.

A table of logits, a row per last byte, all of it trained; losses as functions of the logprobs of the targets.
"""

import copy
import math

VOCABULARY = 256
HIGHEST_TOKEN = 1 << 20  # of what clients may send; all are taken modulo the vocabulary
PRINTABLE = range(32, 127)


def softmax_log(row):
    top = max(row)
    total = top + math.log(math.fsum(math.exp(x - top) for x in row))
    return [x - total for x in row]


class Bigram:
    """Trained rows lie on top of a fresh model's, as an adapter does, so that weight decay leads back to it."""

    def __init__(self):
        self.rows = {}  # last byte -> what training added to its logits
        self.moments = {}  # last byte -> (mean, mean of squares)
        self.steps = 0
        self.gradients = {}

    FRESH = [0.0 if token in PRINTABLE else -6.0 for token in range(VOCABULARY)]

    def snapshot(self):
        out = copy.deepcopy(self)
        out.gradients = {}
        return out

    def without_optimizer(self):
        out = self.snapshot()
        out.moments, out.steps = {}, 0
        return out

    def logprobs(self, last):
        added = self.rows.get(last)
        return softmax_log([x + y for x, y in zip(self.FRESH, added)] if added else self.FRESH)

    def add_gradient(self, last, target, slope):
        """`slope` is d loss / d logprob of `target` after `last`."""
        if slope == 0:
            return
        row = self.gradients.setdefault(last, [0.0] * VOCABULARY)
        for token, logprob in enumerate(self.logprobs(last)):
            row[token] -= slope * math.exp(logprob)
        row[target] += slope

    def gradient_norm(self):
        return math.sqrt(math.fsum(g * g for row in self.gradients.values() for g in row))

    def adam_step(self, learning_rate, beta1, beta2, eps, weight_decay, grad_clip_norm):
        """AdamW; returns the norm of the gradient before it was clipped."""
        self.steps += 1
        norm = self.gradient_norm()
        scale = grad_clip_norm / norm if 0 < grad_clip_norm < norm else 1.0
        nothing = [0.0] * VOCABULARY
        for last in self.gradients.keys() | self.rows.keys():
            mean, square = self.moments.setdefault(last, (nothing[:], nothing[:]))
            row = self.rows.setdefault(last, nothing[:])
            for i, gradient in enumerate(self.gradients.get(last, nothing)):
                g = gradient * scale
                mean[i] = beta1 * mean[i] + (1 - beta1) * g
                square[i] = beta2 * square[i] + (1 - beta2) * g * g
                unbiased = mean[i] / (1 - beta1**self.steps)
                row[i] -= learning_rate * weight_decay * row[i]
                row[i] -= learning_rate * unbiased / (math.sqrt(square[i] / (1 - beta2**self.steps)) + eps)
        self.gradients = {}
        return norm


SETTINGS = {
    "ppo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
    "cispo": {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0},
    "dro": {"beta": 0.05},
    "gspo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
}


def settings_of(name, config):
    """The settings of a loss with its defaults; ValueError for those that it does not have."""
    if name == "custom":
        return {}
    known = SETTINGS.get(name, {})
    for setting in config:
        if setting not in known:
            raise ValueError(f"there is no setting '{setting}'")
    return {**known, **config}


def sequence_ratios(logprobs, inputs):
    """gspo's one ratio for a sequence, at each of its positions."""
    mask = inputs.get("sequence_ratio_mask") or inputs["advantages"]
    counted = [l - q for l, q, m in zip(logprobs, inputs["logprobs"], mask) if m]
    return [math.exp(math.fsum(counted) / len(counted)) if counted else 1.0] * len(logprobs)


def clipped(ratio, settings):
    return min(max(ratio, settings["clip_low_threshold"]), settings["clip_high_threshold"])


def losses_and_slopes(name, logprobs, inputs, config):
    """The loss at each target and its derivative by the logprob; KeyError where an input is missing."""
    settings = settings_of(name, config)
    if name == "custom":  # its graph is the client's concern here
        return [(0.0, 0.0)] * len(logprobs)
    if name == "cross_entropy":
        weights = inputs.get("weights") or [1.0] * len(logprobs)
        return [(-w * l if w else 0.0, -w) for l, w in zip(logprobs, weights)]
    if name not in ("importance_sampling", *SETTINGS):
        raise ValueError("this server does not have it")
    ratios = [math.exp(l - q) for l, q in zip(logprobs, inputs["logprobs"])]
    if name == "gspo":
        ratios = sequence_ratios(logprobs, inputs)
    rows = zip(logprobs, inputs["logprobs"], inputs["advantages"], ratios)
    return [policy_loss(name, *row, settings) for row in rows]


def policy_loss(name, logprob, q, advantage, ratio, settings):
    if name == "importance_sampling":
        return -ratio * advantage, -ratio * advantage
    if name == "cispo":
        return -clipped(ratio, settings) * logprob * advantage, -clipped(ratio, settings) * advantage
    if name == "dro":
        beta, gap = settings["beta"], logprob - q
        return -(logprob * advantage - beta / 2 * gap * gap), -(advantage - beta * gap)
    whole, bounded = ratio * advantage, clipped(ratio, settings) * advantage
    return (-whole, -whole) if whole <= bounded else (-bounded, 0.0)
