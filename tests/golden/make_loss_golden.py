#!/usr/bin/env python3
"""Writes tests/golden/loss_graphs.txt: losses traced by torch.fx, with the values PyTorch computes.

    PYTHONPATH=<site-packages of tinker 0.36.0> python3 tests/golden/make_loss_golden.py

Needs torch (1.13 or later) and the official package, whose own tracer and encoder make the graphs. Each loss is evaluated in
float64 on inputs that float32 represents exactly. One case is five kinds of lines:

    case NAME smooth|kinked|values      whether finite differences may be compared, or there is no gradient
    input NAME RANK DTYPE [SHAPE] [VALUES]
    node OP NAME TARGET ARGS KWARGS     as JSON
    result LOSS {METRICS} [GRADIENT]
    end
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from tinker.lib.public_interfaces.custom_loss import encode_graph, trace_loss

torch.set_default_dtype(torch.float64)

VECTOR = [-0.75, -1.5, -0.25, -2.0, -3.25]
MATRIX = [[-0.75, -1.5, -0.25, -2.0], [-3.25, -0.5, -1.25, -2.5], [-0.125, -4.0, -1.75, -0.625]]
Q = [-0.5, -1.75, -0.5, -2.25, -3.0]
A = [1.0, -0.5, 2.0, 0.0, -1.25]
POSITIVE = [0.75, 1.5, 0.25, 2.0, 3.25]
IDS = [4, 0, 2, 2, 1]


def mix(y):
    """A scalar whose slope differs from element to element."""
    return (y * y * 0.5 + y).sum()


def pair(y):
    return mix(y), {}


CASES = []


def case(name, fn, kind="smooth", logprobs=VECTOR, **inputs):
    CASES.append((name, fn, kind, {"logprobs": logprobs, **inputs}))


def source(body, parameters="logprobs"):
    """A loss without metrics, from the text of its value."""
    return eval(f"lambda {parameters}: ({body}, {{}})")


# ---- functions of one number ----
UNARY = "exp expm1 sigmoid tanh sin cos erf exp2 square abs neg sign floor ceil trunc round reciprocal".split()
for op in UNARY:
    kind = "kinked" if op in ("sign", "floor", "ceil", "trunc", "round") else "smooth"
    case(f"torch.{op}", source(f"mix(torch.{op}(logprobs)) + logprobs.sum()"), kind)
    case(f"method.{op}", source(f"mix(logprobs.{op}()) + logprobs.sum()"), kind)
for op in "log log2 log10 log1p sqrt rsqrt".split():
    case(f"torch.{op}", source(f"mix(torch.{op}(-logprobs))"))
    case(f"method.{op}", source(f"mix((-logprobs).{op}())"))
case("relu", lambda logprobs: pair(F.relu(logprobs + 1)))
case("torch.relu", lambda logprobs: pair(torch.relu(logprobs + 1)))
case("silu", lambda logprobs: pair(F.silu(logprobs)))
case("logsigmoid", lambda logprobs: pair(F.logsigmoid(logprobs)))
case("softplus", lambda logprobs: pair(F.softplus(logprobs)))
case("softplus_beta", lambda logprobs: pair(F.softplus(logprobs, beta=2.0, threshold=1.0)))
case("softplus_linear", lambda logprobs: pair(F.softplus(-logprobs * 9, 1, 20)))
case("special_expit", lambda logprobs: pair(torch.special.expit(logprobs)))
case("abs_at_zero", lambda logprobs: (torch.abs(logprobs).sum(), {}), "kinked", [0.0, -1.0, 2.0])
case("relu_at_zero", lambda logprobs: (torch.relu(logprobs).sum(), {}), "kinked", [0.0, -1.0, 2.0])
case("nan_to_num", lambda logprobs: pair(torch.nan_to_num(torch.log(logprobs), nan=-2.0, neginf=-9.0)), "kinked", [0.0, -1.0, 2.0])

# ---- arithmetic ----
case("operators", lambda logprobs, q: pair((logprobs + q) * (logprobs - q) / (1.5 - q) - 2 * logprobs + 3), q=Q)
case("reversed_operators", lambda logprobs: pair(1 - logprobs + 2 / logprobs + 2 ** logprobs))
case("pow_scalar", lambda logprobs: pair(logprobs ** 3 + logprobs ** 2))
case("pow_zero", lambda logprobs: (torch.pow(logprobs, 0).sum() + logprobs.sum(), {}), "smooth")
case("pow_tensor", lambda logprobs, p: pair(torch.pow(-logprobs, p)), p=POSITIVE)
case("pow_exponent", lambda logprobs, p: pair(torch.pow(p, logprobs)), p=POSITIVE)
case("floordiv_mod", lambda logprobs: ((logprobs.detach() // 0.3 * logprobs).sum() + pair(logprobs % 0.7)[0], {}), "kinked")
case("remainder", lambda logprobs: pair(torch.remainder(logprobs, 0.7)), "kinked")
case("integers", lambda logprobs, ids: ((logprobs * (ids // 2 + ids % 3 - ids * 2)).sum(), {}), ids=IDS)
case("add_alpha", lambda logprobs, q: pair(torch.add(logprobs, q, alpha=0.5) + torch.sub(logprobs, q, alpha=2)), q=Q)
case("rsub", lambda logprobs: pair(torch.rsub(logprobs, 1.0)))
case("div_floor", lambda logprobs: (torch.div(logprobs, 0.4, rounding_mode="floor").sum() + logprobs.sum(), {}), "kinked")
case("div_trunc", lambda logprobs: (torch.div(logprobs, 0.4, rounding_mode="trunc").sum() + logprobs.sum(), {}), "kinked")
case("true_divide_ints", lambda logprobs, ids: ((logprobs * (ids / 4)).sum(), {}), ids=IDS)
case("minimum", lambda logprobs, q: pair(torch.minimum(logprobs, q)), q=Q)
case("maximum", lambda logprobs, q: pair(torch.maximum(logprobs, q)), q=Q)
case("minimum_tie", lambda logprobs, q: pair(torch.minimum(logprobs, q) * 3 + torch.maximum(logprobs, q)), "kinked", q=VECTOR)
case("logaddexp", lambda logprobs, q: pair(torch.logaddexp(logprobs, q)), q=Q)
case("xlogy", lambda logprobs, p: pair(torch.xlogy(logprobs, p)), p=POSITIVE)
case("clamp", lambda logprobs: pair(torch.clamp(logprobs, -1.6, -0.3)))
case("clamp_at_bounds", lambda logprobs: pair(torch.clamp(logprobs, -1.5, -0.25)), "kinked")
case("clamp_keywords", lambda logprobs: pair(logprobs.clamp(min=-1.6) + logprobs.clip(max=-0.6)))
case("clamp_tensor", lambda logprobs, q: pair(torch.clamp(logprobs, min=q)), q=Q)
case("clamp_min_max", lambda logprobs: pair(logprobs.clamp_min(-1.6) + torch.clamp_max(logprobs, -0.6)))
case("where", lambda logprobs, q: pair(torch.where(logprobs > q, logprobs * 2, q * logprobs.exp())), q=Q)
case("where_method", lambda logprobs, q: pair(logprobs.where(q > -1, q * logprobs)), q=Q)
case("where_nan", lambda logprobs: (torch.where(logprobs > 0, torch.log(logprobs), logprobs).sum(), {}), "kinked", [0.5, -1.0, 2.0])
case("masked_fill", lambda logprobs, q: pair(logprobs.masked_fill(q > -1, 0.0)), q=Q)
case("infinity", lambda logprobs, q: (torch.where(q > -1, logprobs, -math.inf).exp().sum(), {}), q=Q)

# ---- logic ----
for op in ("gt", "ge", "lt", "le", "eq", "ne"):
    sign = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}[op]
    body = f"(logprobs * (logprobs {sign} q).float() + logprobs * torch.{op}(q, -0.5) + logprobs * q.{op}(-3)).sum()"
    case(f"compare.{op}", source(body, "logprobs, q"), q=Q)
case("and_or_not", lambda logprobs, q: ((logprobs * (((logprobs > -1) & (q < -0.4)) | ~(q > -2)).float()).sum(), {}), q=Q)
case("logical", lambda logprobs, q: ((logprobs * torch.logical_and(q > -2, torch.logical_not(q > -0.6)).float() + logprobs * torch.logical_or(q > -1, q < -2)).sum(), {}), q=Q)
case("is_finite", lambda logprobs, q: ((logprobs * torch.isfinite(q / 0)).sum() + (logprobs * torch.isnan(q)).sum() + (logprobs * torch.isinf(q / 0)).sum(), {}), q=A)
case("invert_ints", lambda logprobs, ids: ((logprobs * (~ids)).sum(), {}), ids=IDS)

# ---- reductions ----
case("sum_dim", lambda logprobs: pair(logprobs.sum(dim=0) * 2 + logprobs.exp().sum(0)), logprobs=MATRIX)
case("sum_keepdim", lambda logprobs: pair(torch.sum(logprobs, 1, keepdim=True) * logprobs), logprobs=MATRIX)
case("sum_dims", lambda logprobs: pair(logprobs.sum((0, 1))), logprobs=MATRIX)
case("sum_axis", lambda logprobs: pair(torch.sum(logprobs, axis=-1)), logprobs=MATRIX)
case("mean", lambda logprobs: pair(logprobs.mean() + logprobs.mean(-1) + torch.mean(logprobs, dim=(0, 1))), logprobs=MATRIX)
case("prod", lambda logprobs: pair(logprobs.prod() + logprobs.prod(1)), logprobs=MATRIX)
case("prod_zero", lambda logprobs: (logprobs.prod(), {}), "smooth", [0.0, -1.5, 2.0])
case("prod_zeros", lambda logprobs: (logprobs.prod() + logprobs.sum(), {}), "smooth", [0.0, -1.5, 0.0])
case("logsumexp", lambda logprobs: pair(torch.logsumexp(logprobs, 1) + logprobs.logsumexp(dim=0, keepdim=True).sum()), logprobs=MATRIX)
case("softmax", lambda logprobs: pair(torch.softmax(logprobs, -1) + F.softmax(logprobs, dim=0) + logprobs.softmax(1)), logprobs=MATRIX)
case("log_softmax", lambda logprobs: pair(F.log_softmax(logprobs, dim=-1) + logprobs.log_softmax(0)), logprobs=MATRIX)
case("log_softmax_torch", lambda logprobs: pair(torch.log_softmax(logprobs, 1)), logprobs=MATRIX)
case("norm", lambda logprobs: pair(logprobs.norm() + torch.norm(logprobs, dim=1)), logprobs=MATRIX)
case("norm_p", lambda logprobs: pair(torch.norm(logprobs, p=1) + torch.norm(logprobs, p=3.0)))
case("norm_inf", lambda logprobs: pair(torch.norm(logprobs, p=math.inf)))
case("norm_zero", lambda logprobs: ((logprobs * 0).norm() + logprobs.sum(), {}), "kinked")
case("linalg_norm", lambda logprobs: pair(torch.linalg.norm(logprobs)))
case("var_std", lambda logprobs: pair(logprobs.var() + logprobs.std(dim=1) + torch.var(logprobs, unbiased=False)), logprobs=MATRIX)
case("std_keepdim", lambda logprobs: pair(torch.std(logprobs, dim=1, keepdim=True, unbiased=False)), logprobs=MATRIX)
case("any_all", lambda logprobs: (logprobs.sum() * (logprobs > -1).any(1).float().sum() + logprobs.sum() * torch.all(logprobs < 0).float(), {}), logprobs=MATRIX)
case("cumsum", lambda logprobs: pair(torch.cumsum(logprobs, 0) + logprobs.cumsum(dim=1)), logprobs=MATRIX)
case("max_all", lambda logprobs: pair(torch.max(logprobs) + logprobs.min()), logprobs=MATRIX)
case("max_tie", lambda logprobs: (logprobs.max() * 3, {}), "kinked", [1.0, 2.0, 2.0, 0.0])
case("max_dim", lambda logprobs: pair(torch.max(logprobs, 1)[0] + logprobs.min(dim=1).values), logprobs=MATRIX)
case("max_dim_tie", lambda logprobs: (logprobs.max(0).values * 3, {}), "kinked", [1.0, 2.0, 2.0, 0.0])
case("max_indices", lambda logprobs: ((logprobs * logprobs.max(1, keepdim=True).indices).sum(), {}), logprobs=MATRIX)
case("max_pair", lambda logprobs, q: pair(torch.max(logprobs, q) + torch.min(q, logprobs)), q=Q)
case("amax_amin", lambda logprobs: pair(torch.amax(logprobs, 1) - logprobs.amin(dim=(0, 1))), logprobs=MATRIX)
case("argmax", lambda logprobs: (logprobs.sum() * (logprobs.argmax(1).sum() + torch.argmin(logprobs)), {}), logprobs=MATRIX)

# ---- shapes and indices ----
case("reshape", lambda logprobs: pair(logprobs.reshape(2, -1).cumsum(1) + logprobs.view(2, 6).exp()), logprobs=MATRIX)
case("reshape_tuple", lambda logprobs: pair(torch.reshape(logprobs, (4, 3)).cumsum(0)), logprobs=MATRIX)
case("flatten", lambda logprobs: pair(logprobs.flatten().cumsum(0) + torch.flatten(logprobs)), logprobs=MATRIX)
case("squeeze", lambda logprobs: pair(logprobs.unsqueeze(-1).squeeze(-1) + torch.unsqueeze(logprobs, 0).squeeze()))
case("transpose", lambda logprobs: pair(logprobs.transpose(0, 1).cumsum(0) + logprobs.T.exp() + logprobs.t()), logprobs=MATRIX)
case("permute", lambda logprobs: pair(logprobs.permute(1, 0).cumsum(1) + torch.permute(logprobs, (1, 0))), logprobs=MATRIX)
case("expand", lambda logprobs: pair(logprobs.unsqueeze(0).expand(3, -1).cumsum(0)))
case("broadcast", lambda logprobs, q: pair(logprobs[:, None] * q[None, :] + logprobs), q=Q)
case("stack_cat", lambda logprobs, q: pair(torch.stack([logprobs, q, logprobs * q]).cumsum(0)[1:] + torch.cat([logprobs, q]).view(2, 5)), q=Q)
case("cat_dim", lambda logprobs: pair(torch.cat((logprobs, logprobs.exp()), dim=1).cumsum(1)), logprobs=MATRIX)
case("stack_dim", lambda logprobs, q: pair(torch.stack((logprobs, q), dim=-1).cumsum(1)), q=Q)
case("getitem", lambda logprobs: pair(logprobs[1:] * logprobs[:-1] + logprobs[0] * logprobs[-1]))
case("getitem_step", lambda logprobs: pair(logprobs[::2] * logprobs[-3:]))
case("getitem_tuple", lambda logprobs: pair(logprobs[1, 1:] * logprobs[0:2, 0].sum() + logprobs[..., 1]), logprobs=MATRIX)
case("getitem_none", lambda logprobs: pair(logprobs[:, None, 1:3] * logprobs[None, ..., :2]), logprobs=MATRIX)
case("getitem_ids", lambda logprobs, ids: pair(logprobs[ids].cumsum(0)), ids=IDS)
case("getitem_list", lambda logprobs: pair(logprobs[[0, 2, 2]]))
case("getitem_mask", lambda logprobs, q: pair(logprobs[q > -1].cumsum(0)), q=Q)
case("getitem_two", lambda logprobs, rows, columns: pair(logprobs[rows, columns]), logprobs=MATRIX, rows=[0, 2, 1], columns=[3, 3, 0])
case("getitem_column", lambda logprobs, columns: pair(logprobs[:, columns].cumsum(1)), logprobs=MATRIX, columns=[3, 3, 0])
case("gather", lambda logprobs, ids: pair(logprobs.gather(1, ids) * 2 + torch.gather(logprobs, 1, ids).exp()), logprobs=MATRIX, ids=[[0, 3], [1, 1], [2, 0]])
case("detach", lambda logprobs, q: ((torch.exp(logprobs - q).clamp(0, 1.2).detach() * logprobs).sum(), {}), "kinked", q=Q)
case("shape", lambda logprobs: (logprobs.sum() / logprobs.shape[0] * logprobs.size(1) + logprobs.sum() / logprobs.numel() * logprobs.dim(), {}), logprobs=MATRIX)
case("shape_arithmetic", lambda logprobs: pair(logprobs.reshape(logprobs.shape[0] * 2, logprobs.shape[1] // 2)), logprobs=MATRIX)
case("casts", lambda logprobs, ids: ((logprobs.to(torch.float64) * ids.double() + logprobs * ids.to(logprobs.dtype) + logprobs * ids.bool().long() + logprobs * ids.type_as(logprobs)).sum(), {}), ids=IDS)
case("cast_device", lambda logprobs, ids: ((logprobs * ids.to("cpu", torch.float64)).sum(), {}), ids=IDS)
case("cast_to_int", lambda logprobs: ((logprobs * logprobs.long()).sum(), {}), "kinked")

# ---- creation ----
case("likes", lambda logprobs: pair(logprobs * torch.ones_like(logprobs) + torch.zeros_like(logprobs) + torch.full_like(logprobs, 0.5) * logprobs))
case("new_zeros", lambda logprobs: pair(logprobs + logprobs.new_ones(5) + logprobs.new_zeros((5,))))

# ---- losses and products ----
for loss in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    body = f"F.{loss}(logprobs, q) + F.{loss}(logprobs * 3, q, reduction='sum') + F.{loss}(logprobs, q, reduction='none').exp().sum()"
    case(loss, source(body, "logprobs, q"), q=A)
case("smooth_l1_beta", lambda logprobs, q: (F.smooth_l1_loss(logprobs, q, beta=0.5), {}), q=A)
case("dot_outer", lambda logprobs, q: pair(torch.dot(logprobs, q) + torch.outer(logprobs, q) + logprobs.dot(logprobs)), q=Q)
case("matmul", lambda logprobs, w: pair(logprobs @ w + torch.matmul(logprobs, w)), logprobs=MATRIX, w=[[1.0, 2.0], [0.5, -1.0], [0.0, 3.0], [-2.0, 1.0]])
case("matmul_vector", lambda logprobs, v: pair(logprobs @ v + (logprobs.T @ logprobs).sum()), logprobs=MATRIX, v=[1.0, 2.0, -0.5, 0.25])

# ---- whole losses ----
case("neg_ll", lambda logprobs, weights: (-(logprobs * weights).sum(), {"custom/neg_ll:sum": -(logprobs * weights).sum()}), weights=A)


def clipped(logprobs, q, a):
    ratio = torch.exp(logprobs - q)
    return -torch.minimum(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a).sum(), {
        "custom/ratio:mean": ratio.mean(),
        "custom/clipped:sum": ((ratio < 0.8) | (ratio > 1.2)).float().sum(),
    }


def cispo(logprobs, q, a):
    ratio = torch.exp(logprobs - q)
    return -(ratio.clamp(0.0, 4.0).detach() * logprobs * a).sum(), {}


def gspo(logprobs, q, a, mask):
    sequence = torch.exp(((logprobs - q) * mask).sum() / mask.sum()).detach()
    ratio = sequence * torch.exp(logprobs - logprobs.detach())
    return -torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a).sum(), {}


def dro(logprobs, q, a):
    return -(logprobs * a - 0.5 * 0.05 * (logprobs - q) ** 2).sum(), {}


def topk_distillation(logprobs, weights):
    p = torch.softmax(logprobs, -1)
    entropy = -(p * torch.log(p)).sum(-1).mean()
    return -(logprobs * weights).sum() - 0.1 * entropy, {"custom/entropy:mean": entropy}


def scaled(logprobs, a, temperature):
    return (logprobs / temperature * a).sum(), {"custom/t:mean": temperature}


case("clipped", clipped, q=Q, a=A)
case("cispo", cispo, "kinked", q=Q, a=A)
case("gspo", gspo, "kinked", q=Q, a=A, mask=[1.0, 1.0, 1.0, 0.0, 1.0])
case("dro", dro, q=Q, a=A)
case("topk_distillation", topk_distillation, logprobs=MATRIX, weights=[[0.25, 0.25, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0], [0.125, 0.375, 0.25, 0.25]])
case("scalar_input", scaled, a=A, temperature=2.0)


def text(numbers):
    return json.dumps(numbers).replace("NaN", '"nan"').replace("-Infinity", '"-inf"').replace("Infinity", '"inf"')


def lines(name, fn, kind, inputs):
    tensors = {key: torch.tensor(value) for key, value in inputs.items()}
    ranks = {key: tensor.dim() for key, tensor in tensors.items()}
    handle = trace_loss(fn, ranks, "session")
    tensors["logprobs"].requires_grad_(True)
    loss, metrics = handle.graph(**tensors)
    loss.sum().backward()
    yield f"case {name} {kind}"
    for key, tensor in tensors.items():
        dtype = "int64" if tensor.dtype == torch.int64 else "float32"
        yield f"input {key} {ranks[key]} {dtype} {text(list(tensor.shape))} {text(tensor.flatten().tolist())}"
    for node in encode_graph(handle).nodes:
        yield f"node {node.op} {node.name} {node.target} {text(node.args)} {text(node.kwargs)}"
    values = {key: value.item() for key, value in metrics.items()}
    yield f"result {text(loss.item())} {text(values)} {text(tensors['logprobs'].grad.flatten().tolist())}"
    yield "end"


def main():
    out = [f"# Made by make_loss_golden.py with torch {torch.__version__}."]
    for entry in CASES:
        out += lines(*entry)
    path = Path(__file__).with_name("loss_graphs.txt")
    path.write_text("\n".join(out) + "\n")
    print(f"{path.name}: {len(CASES)} cases")


if __name__ == "__main__":
    main()
