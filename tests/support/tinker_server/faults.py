"""One fault for each law of `tinker conform`: calling it makes this server break that law.

A fault replaces a function of the server by one that does nearly the same. It may break other laws as well.
"""

import asyncio
import copy
import itertools
import json
import os
import random
import re
import types

import api
import model
import proto
import sampling
import training
from api import Api, Refusal
from http1 import Response
from model import Bigram
from training import ModelError

# Whether the answer that is late is given at last: the law waits for 45 s.
IS_SLOW = bool(os.environ.get("TINKER_CONFORM_SLOW"))

FAULTS = {}  # law -> what plants its fault


def breaks(law):
    def add(plant):
        FAULTS[law] = plant
        return plant

    return add


# ---- what faults are made of ------------------------------------------------------------------


def wrap(owner, name, around):
    """`owner.name` becomes a function that gets what it was as its first argument."""
    usual = getattr(owner, name)
    setattr(owner, name, lambda *arguments, **named: around(usual, *arguments, **named))


def answered(path, change, method=None):
    """`change(api, request, response)` is the answer to paths that match."""

    async def around(usual, self, request):
        response = await usual(self, request)
        if not re.search(path, request.path) or method not in (None, request.method):
            return response
        changed = change(self, request, response)
        return await changed if asyncio.iscoroutine(changed) else changed

    wrap(Api, "answer", around)


def edited(path, **members):
    """Members of a JSON answer have other values; None leaves one out."""

    def change(self, request, response):
        body = {**json.loads(response.body), **members}
        return Response({name: value for name, value in body.items() if value is not None}, response.status)

    answered(path, change)


def status(path, old, new, method=None):
    change = lambda self, request, response: Response(response.body, new) if response.status == old else response
    answered(path, change, method)


def asked(change):
    """`change(api, request)` comes before the answer; what it returns, if anything, is the answer."""

    async def around(usual, self, request):
        return change(self, request) or await usual(self, request)

    wrap(Api, "answer", around)


def computed(path, change):
    """`change(api, request, compute)` is done in place of an operation."""

    def around(usual, self, request_id, request, compute, **extra):
        other = lambda: change(self, request, compute)
        return usual(self, request_id, request, other if request.path.endswith(path) else compute, **extra)

    wrap(Api, "accept", around)


def result(path, **members):
    computed(path, lambda self, request, compute: {**compute(), **members})


def renamed(path):
    """Each time an operation is sent it is another one."""
    count = itertools.count()

    def around(usual, self, request_id, request, compute, **extra):
        suffix = f":{next(count)}" if request.path.endswith(path) else ""
        return usual(self, request_id + suffix, request, compute, **extra)

    wrap(Api, "accept", around)


def repeated(path):
    """An operation that is sent again is done again, under its name."""

    def around(usual, self, request_id, request, compute, **extra):
        if request.path.endswith(path):
            self.results.pop(request_id, None)
        return usual(self, request_id, request, compute, **extra)

    wrap(Api, "accept", around)


def numbered(check):
    """`check(api, run, seq_id)` may refuse an operation of a model; `run["seen"]` are the numbers before it."""

    def around(usual, self, request, model_id, seq_id, compute, is_barrier=True):
        def checked():
            run = self.runs[model_id]
            seen = run.setdefault("seen", {0})
            check(self, run, seq_id)
            out = compute()
            seen.add(seq_id)
            return out

        return usual(self, request, model_id, seq_id, checked, is_barrier)

    wrap(Api, "accept_numbered", around)


def refuse_when(is_wrong, text):
    def check(self, run, seq_id):
        if is_wrong(self, run, seq_id):
            raise ModelError(text)

    numbered(check)


def slopes(change, loss=None):
    """`change(loss, slope, inputs)` is the loss and slope at a target."""

    def around(usual, name, logprobs, inputs, config):
        results = usual(name, logprobs, inputs, config)
        return [change(*each, inputs) for each in results] if loss in (None, name) else results

    wrap(training, "losses_and_slopes", around)


def instead(loss, change):
    """The arguments of a loss become `change(loss, logprobs, inputs, config)`."""

    def around(usual, name, logprobs, inputs, config):
        return usual(*(change(name, logprobs, inputs, config) if name == loss else (name, logprobs, inputs, config)))

    wrap(training, "losses_and_slopes", around)


def passes(change):
    """`change(loss, logprobs, shape)` is what one datum gives."""
    wrap(training, "run_datum", lambda usual, *arguments: change(*usual(*arguments)))


def steps(change):
    """`change(model, parameters)` edits the parameters of a step before it is made."""

    def around(usual, self, **params):
        change(self, params)
        return usual(self, **params)

    wrap(Bigram, "adam_step", around)


def samples(change):
    """`change(body)` edits a request before it is served."""

    def around(usual, weights, body):
        body = copy.deepcopy(body)
        change(body)
        return usual(weights, body)

    wrap(api, "sample_response", around)


def seen_by(function, change):
    """A function of sampling.py sees the logprobs that `change(logprob, *its other arguments)` makes."""

    def around(usual, weights, *arguments):
        changed = lambda last: [change(x, *arguments) for x in weights.logprobs(last)]
        return usual(types.SimpleNamespace(logprobs=changed), *arguments)

    wrap(sampling, function, around)


def chance(make):
    sampling.random = types.SimpleNamespace(Random=make)


# ---- wire -------------------------------------------------------------------------------------


@breaks("wire.health")
def _():
    edited("/healthz$", status="fine")


@breaks("wire.config")
def _():
    edited("/client/config$", parallel_fwdbwd_chunks="perhaps")


@breaks("wire.capabilities")
def _():
    edited("/get_server_capabilities$", supported_models=[{"model_name": "another"}])


@breaks("wire.telemetry")
def _():
    edited("/telemetry$", status="ok")


@breaks("wire.unknown_members")
def _():
    asked(lambda self, request: Response({"detail": "extra"}, 422) if b"tomorrow" in request.body else None)


@breaks("wire.json_spelling")
def _():
    asked(lambda self, request: Response({"detail": "escape"}, 422) if b"\\u" in request.body else None)


@breaks("wire.model_ids")
def _():
    result("/create_model", model_id="model-1")


@breaks("wire.get_info")
def _():
    edited("/get_info$", lora_rank=32)


@breaks("wire.session_members")
def _():
    edited("/sessions/[^/]+$", sampler_ids=[])


@breaks("wire.sequence_ids")
def _():
    edited("/asample$", sample_sequence_ids=None)


@breaks("wire.protobuf_results")
def _():
    answered(
        "/retrieve_future$",
        lambda self, request, response: Response({"metrics": {}}) if response.is_proto else response,
    )


@breaks("wire.metric_names")
def _():
    wrap(training, "encode_output", lambda usual, *arguments: usual(*arguments).replace(b"loss:sum", b"loss_sum"))


@breaks("wire.output_shapes")
def _():
    passes(lambda loss, logprobs, shape: (loss, logprobs[1:], shape))


@breaks("wire.zstd_bodies")
def _():
    def no_zstd(body):
        raise ValueError("no zstd after all")

    training.decompressed = no_zstd
    edited("/client/config$", proto_compress_fwdbwd=True)


# ---- order ------------------------------------------------------------------------------------


@breaks("order.first_chunk_last")
def _():
    refuse_when(lambda self, run, seq_id: seq_id - 1 not in run["seen"], "a number is missing")


@breaks("order.pipelined")
def _():
    late = {}

    def around(usual, self, request_id, request, compute, **extra):
        if request.path.endswith("/optim_step"):
            late[request_id] = compute
            compute = dict
        return usual(self, request_id, request, compute, **extra)

    def carry_out(self, request):
        request_id = request.path.endswith("/retrieve_future") and request.json()["request_id"]
        if request_id in late:
            self.results[request_id] = Response(late.pop(request_id)())

    wrap(Api, "accept", around)
    asked(carry_out)


@breaks("order.duplicate_gradient")
def _():
    repeated("/forward_backward")


@breaks("order.duplicate_step")
def _():
    repeated("/optim_step")


@breaks("order.reused_number")
def _():
    def around(usual, self, request_id, request, compute, **extra):
        return usual(self, request_id, types.SimpleNamespace(body=b"", path=request.path), compute, **extra)

    wrap(Api, "accept", around)


@breaks("order.gap")
def _():
    is_gap = lambda self, run, seq_id: seq_id - 1 not in run["seen"] and seq_id > 2
    refuse_when(is_gap, "a number is missing")


@breaks("order.late_number")
def _():
    wrap(Api, "accept_numbered", lambda usual, *arguments, **_: usual(*arguments[:5], is_barrier=False))


@breaks("order.refused_number")
def _():
    refuse_when(lambda self, run, seq_id: seq_id > 1 and seq_id - 1 not in run["seen"], "waits for a refused one")


@breaks("order.models_are_apart")
def _():
    def is_held_up(self, run, seq_id):
        return any(2 in other.get("seen", ()) and 1 not in other["seen"] for other in self.runs.values())

    refuse_when(is_held_up, "another model waits")


@breaks("order.create_model_again")
def _():
    renamed("/create_model")


@breaks("order.sampling_session_again")
def _():
    def around(usual, self, sampler_id, weights, source):
        return usual(self, f"{sampler_id}-{len(self.samplers)}", weights, source)

    wrap(Api, "add_sampler", around)


@breaks("order.sample_again")
def _():
    renamed("/asample")


# ---- futures ----------------------------------------------------------------------------------


@breaks("futures.delivered_again")
def _():
    def forget(self, request, response):
        if response.is_proto:
            del self.results[request.json()["request_id"]]
        return response

    answered("/retrieve_future$", forget)


@breaks("futures.unknown_id")
def _():
    status("/retrieve_future$", 404, 500)


@breaks("futures.users_error")
def _():
    answered(
        "/retrieve_future$",
        lambda self, request, response: Response(response.body.replace(b'"user"', b'"server"'), response.status),
    )


@breaks("futures.error_again")
def _():
    def forget(self, request, response):
        if response.body.startswith(b'{"error"'):
            self.results[request.json()["request_id"]] = Response({"metrics": {}})
        return response

    answered("/retrieve_future$", forget)


@breaks("futures.metadata")
def _():
    metadata = {"status": "complete_metadata", "response_payload_size": 100}
    answered(
        "/retrieve_future$", lambda self, request, response: Response(metadata) if response.is_proto else response
    )


@breaks("futures.batched_poll")
def _():
    def twice(self, request, response):
        body = json.loads(response.body)
        return Response({**body, "completions": body["completions"] * 2})

    answered("/retrieve_futures$", twice)


@breaks("futures.cancelled")
def _():
    status("/cancel_future$", 200, 500)


# ---- losses -----------------------------------------------------------------------------------


@breaks("losses.cross_entropy")
def _():
    slopes(lambda loss, slope, inputs: (abs(loss), slope))


@breaks("losses.weights_default")
def _():
    slopes(lambda loss, slope, inputs: (loss, slope) if "weights" in inputs else (0.0, 0.0))


@breaks("losses.values_are_sums")
def _():
    wrap(training, "encode_output", lambda usual, loss, outputs: usual(loss / len(outputs), outputs))


@breaks("losses.direction")
def _():
    slopes(lambda loss, slope, inputs: (loss, -slope))


@breaks("losses.gradients_are_sums")
def _():
    def around(usual, body, is_compressed, model_of):
        model_id, seq_id, compute = usual(body, is_compressed, model_of)
        count = len(proto.parse(body).get(3, []))

        def averaged():
            trained = model_of(model_id)
            before, trained.gradients = trained.gradients, {}
            out = compute()
            for last, row in trained.gradients.items():
                old = before.setdefault(last, [0.0] * len(row))
                before[last] = [x + y / count for x, y in zip(old, row)]
            trained.gradients = before
            return out

        return model_id, seq_id, averaged

    wrap(api, "forward_backward", around)


@breaks("losses.tokens_are_summed")
def _():
    slopes(lambda loss, slope, inputs: (loss, slope / (sum(inputs["weights"]) or 1)))


@breaks("losses.accumulation")
def _():
    def alone(self, request, compute):
        self.runs[proto.text(proto.parse(request.body), 1)]["model"].gradients = {}
        return compute()

    computed("/forward_backward", alone)


@breaks("losses.negative_weights")
def _():
    slopes(lambda loss, slope, inputs: (loss, -abs(slope)))


@breaks("losses.zero_weights")
def _():
    slopes(lambda loss, slope, inputs: (loss, slope or -1.0))


@breaks("losses.forward_only")
def _():
    wrap(training, "run_datum", lambda usual, *arguments: usual(*arguments[:4], True))


@breaks("losses.neighbours")
def _():
    def around(usual, loss, outputs):
        shift = 0.1 * (len(outputs) - 1)
        return usual(loss, [([x - shift for x in logprobs], shape) for logprobs, shape in outputs])

    wrap(training, "encode_output", around)


@breaks("losses.causal")
def _():
    passes(lambda loss, logprobs, shape: (loss, [x + 0.1 * logprobs[-1] for x in logprobs], shape))
    wrap(Bigram, "logprobs", lambda usual, self, last: [x - 0.01 * i for i, x in enumerate(usual(self, last))])


@breaks("losses.several_targets")
def _():
    passes(lambda loss, logprobs, shape: (loss, logprobs[::-1] if len(shape) > 1 else logprobs, shape))


@breaks("losses.importance_sampling")
def _():
    slopes(lambda loss, slope, inputs: (loss, slope / 2), "importance_sampling")


@breaks("losses.importance_ratio")
def _():
    without_ratio = lambda name, logprobs, inputs, config: (name, inputs["logprobs"], inputs, config)
    instead("importance_sampling", without_ratio)


@breaks("losses.ppo_inside")
def _():
    slopes(lambda loss, slope, inputs: (loss, 0.0), "ppo")


@breaks("losses.ppo_clip")
def _():
    instead("ppo", lambda name, logprobs, inputs, config: ("importance_sampling", logprobs, inputs, {}))


@breaks("losses.ppo_thresholds")
def _():
    instead("ppo", lambda name, logprobs, inputs, config: (name, logprobs, inputs, {}))


@breaks("losses.cispo")
def _():
    instead("cispo", lambda name, logprobs, inputs, config: (name, logprobs, inputs, {}))


@breaks("losses.dro")
def _():
    instead("dro", lambda name, logprobs, inputs, config: (name, logprobs, inputs, {"beta": 0.0}))


@breaks("losses.gspo")
def _():
    instead("gspo", lambda name, logprobs, inputs, config: ("importance_sampling", logprobs, inputs, {}))


@breaks("losses.unknown_settings")
def _():
    known = lambda name, config: {key: value for key, value in config.items() if key in model.SETTINGS.get(name, {})}
    wrap(model, "settings_of", lambda usual, name, config: usual(name, known(name, config)))


# ---- optimizer --------------------------------------------------------------------------------


@breaks("optimizer.zero_rate")
def _():
    steps(lambda self, params: params.update(learning_rate=params["learning_rate"] or 0.1))


@breaks("optimizer.cleared")
def _():
    def around(usual, self, **params):
        kept = self.gradients
        norm = usual(self, **params)
        self.gradients = kept
        return norm

    wrap(Bigram, "adam_step", around)


@breaks("optimizer.equal_steps")
def _():
    steps(lambda self, params: params.update(learning_rate=params["learning_rate"] / (self.steps + 1)))


@breaks("optimizer.normalised")
def _():
    steps(lambda self, params: params.update(learning_rate=params["learning_rate"] * self.gradient_norm()))


@breaks("optimizer.eps")
def _():
    steps(lambda self, params: params.update(eps=1e-12))


@breaks("optimizer.momentum")
def _():
    steps(lambda self, params: params.update(beta1=0.0))


@breaks("optimizer.second_moment")
def _():
    steps(lambda self, params: params.update(beta2=0.0))


@breaks("optimizer.weight_decay")
def _():
    steps(lambda self, params: params.update(weight_decay=0.0))


@breaks("optimizer.gradient_norm")
def _():
    result("/optim_step", metrics={"grad_norm": 1.0})


@breaks("optimizer.clipping")
def _():
    steps(lambda self, params: params.update(grad_clip_norm=0.0))


@breaks("optimizer.models_are_apart")
def _():
    shared = {}

    def around(usual, self):
        usual(self)
        self.gradients = shared

    wrap(Bigram, "__init__", around)


@breaks("optimizer.adapter_seed")
def _():
    count = itertools.count(1)
    steps(lambda self, params: params.update(learning_rate=params["learning_rate"] * (1 + next(count) % 3)))


@breaks("optimizer.learns")
def _():
    steps(lambda self, params: params.update(learning_rate=params["learning_rate"] * (-1) ** self.steps))


# ---- sampling ---------------------------------------------------------------------------------


@breaks("sampling.lengths")
def _():
    samples(lambda body: body["sampling_params"].update(max_tokens=body["sampling_params"]["max_tokens"] + 1))


@breaks("sampling.stop_token")
def _():
    wrap(sampling, "is_stopped", lambda usual, tokens, stop: False)


@breaks("sampling.stop_string")
def _():
    wrap(sampling, "is_stopped", lambda usual, tokens, stop: False)


@breaks("sampling.seeds")
def _():
    chance(lambda seed: random.Random())


@breaks("sampling.no_seed")
def _():
    samples(lambda body: body["sampling_params"].setdefault("seed", 0))


@breaks("sampling.diversity")
def _():
    chance(lambda seed: random.Random(seed // 1_000_003))


@breaks("sampling.greedy")
def _():
    wrap(sampling, "draw", lambda usual, row, params, rng: usual(row, {**params, "top_k": -1}, rng))


@breaks("sampling.greedy_is_likeliest")
def _():
    def around(usual, row, params, rng):
        return usual([-x for x in row] if params["temperature"] == 0 else row, params, rng)

    wrap(sampling, "draw", around)


@breaks("sampling.batch_independence")
def _():
    count = itertools.count()
    chance(lambda seed: random.Random(seed + next(count)))


# ---- logprobs ---------------------------------------------------------------------------------


@breaks("logprobs.one_truth")
def _():
    seen_by("sequence", lambda x, *_: x - 0.3)


@breaks("logprobs.base_is_fresh")
def _():
    seen_by("prompt_readouts", lambda x, *_: 0.9 * x)


@breaks("logprobs.snapshots")
def _():
    Bigram.snapshot = lambda self: self


@breaks("logprobs.prompt")
def _():
    samples(lambda body: body.update(prompt_logprobs=True))


@breaks("logprobs.chunked_prompt")
def _():
    samples(lambda body: body["prompt"].update(chunks=body["prompt"]["chunks"][:1]))


@breaks("logprobs.tempering")
def _():
    seen_by("sequence", lambda x, last, params, *_: x * params["temperature"])


@breaks("logprobs.topk_prompt")
def _():
    wrap(sampling, "top", lambda usual, row, k: tuple(each[::-1] for each in usual(row, k)))


@breaks("logprobs.topk_sample")
def _():
    wrap(sampling, "top", lambda usual, row, k: usual([-x for x in row], k))


@breaks("logprobs.target_prompt")
def _():
    def shift(body):
        if wanted := body.get("target_prompt_logprobs"):
            wanted["data"] = wanted["data"][1:] + wanted["data"][:1]

    samples(shift)


@breaks("logprobs.last_n")
def _():
    samples(lambda body: body.pop("prompt_logprobs_last_n", None))


@breaks("logprobs.alt_tokens")
def _():
    samples(lambda body: body.update(prompt_alt_tokens_k=0))


# ---- checkpoints ------------------------------------------------------------------------------


@breaks("checkpoints.paths")
def _():
    def shorten(self, request, compute):
        out = compute()
        return {**out, "path": out["path"].replace("/sampler_weights/", "/")}

    computed("/save_weights_for_sampler", shorten)


@breaks("checkpoints.save_and_load")
def _():
    Bigram.snapshot = lambda self: self


@breaks("checkpoints.resume")
def _():
    def around(usual, self):
        out = usual(self)
        out.moments, out.steps = {}, 0
        return out

    wrap(Bigram, "snapshot", around)


@breaks("checkpoints.weights_only")
def _():
    Bigram.without_optimizer = Bigram.snapshot


@breaks("checkpoints.load_drops_gradients")
def _():
    def keep(self, request, compute):
        run = self.runs[request.json()["model_id"]]
        kept = run["model"].gradients
        out = compute()
        run["model"].gradients = kept
        return out

    computed("/load_weights", keep)


@breaks("checkpoints.create_via_load")
def _():
    result("/load_weights", model_id="model-1")


@breaks("checkpoints.sample_from")
def _():
    def around(usual, self, sampler_id, weights, source):
        return usual(self, sampler_id, Bigram() if source else weights, source)

    wrap(Api, "add_sampler", around)


@breaks("checkpoints.sample_from_training")
def _():
    asked(
        lambda self, request: Response({"detail": "no sampler weights"}, 400)
        if request.path.endswith("/create_sampling_session") and b"/weights/" in request.body
        else None
    )


@breaks("checkpoints.ephemeral")
def _():
    def store(self, request, compute):
        if "path" not in request.json():
            self.add_checkpoint(request.json()["model_id"], "sampler_weights", "ephemeral", {})
        return compute()

    computed("/save_weights_for_sampler", store)


@breaks("checkpoints.get_sampler")
def _():
    edited("/samplers/", model_path=None)


# ---- catalogue --------------------------------------------------------------------------------


@breaks("catalogue.taken_name")
def _():
    def conflict(self, request, compute):
        try:
            return compute()
        except ModelError as error:
            raise Refusal(409, str(error)) from error

    computed("/save_weights", conflict)


@breaks("catalogue.overwrite")
def _():
    def around(usual, self, run_id, kind, name, body):
        path = f"tinker://{run_id}/{kind}/{name}"
        return path if path in self.checkpoints else usual(self, run_id, kind, name, body)

    wrap(Api, "add_checkpoint", around)


@breaks("catalogue.bad_names")
def _():
    api.CHECKPOINT_NAME = re.compile(".*")


@breaks("catalogue.unknown_path")
def _():
    status("/load_weights$", 404, 500)


@breaks("catalogue.lists")
def _():
    edited("/api/v1/checkpoints$", checkpoints=[])


@breaks("catalogue.pages")
def _():
    asked(lambda self, request: request.query.update(limit="1000") if "limit" in request.query else None)


@breaks("catalogue.weights_info")
def _():
    edited("/weights_info$", lora_rank=None)


@breaks("catalogue.ttl")
def _():
    api.later = lambda seconds: None


@breaks("catalogue.publish")
def _():
    def delete(self, request, response):
        run_id, checkpoint_id = re.search("/training_runs/([^/]+)/checkpoints/(.+)/publish", request.path).groups()
        del self.checkpoints[f"tinker://{run_id}/{checkpoint_id}"]
        return response

    answered("/publish$", delete, "DELETE")


@breaks("catalogue.deletion")
def _():
    def delete(self, request, response):
        self.checkpoints.clear()
        return response

    answered("/checkpoints/", delete, "DELETE")


@breaks("catalogue.bare_id")
def _():
    def complete(self, request):
        if request.method == "DELETE":
            request.path = request.path.replace("/checkpoints/a", "/checkpoints/weights/a")

    asked(complete)


# ---- refusals ---------------------------------------------------------------------------------


@breaks("refusals.unknown_model")
def _():
    status("/optim_step$", 404, 500)


@breaks("refusals.unknown_session")
def _():
    status("/session_heartbeat$", 404, 200)


@breaks("refusals.unknown_sampler")
def _():
    status("/asample$", 404, 409)


@breaks("refusals.unknown_base_model")
def _():
    Api.check_base_model = lambda self, name: None


@breaks("refusals.unknown_checkpoint")
def _():
    status("/weights_info$", 404, 500)


@breaks("refusals.garbage_json")
def _():
    status("", 422, 500)


@breaks("refusals.garbage_proto")
def _():
    status("/forward_backward$", 422, 500)


@breaks("refusals.unknown_type")
def _():
    status("/forward_backward$", 415, 500)


@breaks("refusals.unknown_endpoint")
def _():
    status("no_such_endpoint", 404, 200)


def refuse_at_once(self, request, response):
    """A failed operation is a refused submission."""
    outcome = self.results.get(json.loads(response.body).get("request_id"))
    return Response(outcome.body, 400) if outcome and outcome.body.startswith(b'{"error"') else response


@breaks("refusals.unknown_loss")
def _():
    answered("/forward_backward$", refuse_at_once)


@breaks("refusals.missing_inputs")
def _():
    answered("/forward_backward$", refuse_at_once)


@breaks("refusals.wrong_lengths")
def _():
    training.check_datum = lambda tokens, tensors: None


@breaks("refusals.unknown_tokens")
def _():
    training.HIGHEST_TOKEN = 1 << 40


@breaks("refusals.wrong_optimizer")
def _():
    def pass_over(self, request, compute):
        return compute() if "adam_params" in request.json() else {"metrics": {}}

    computed("/optim_step", pass_over)


@breaks("refusals.wrong_sampling")
def _():
    api.check_sample = lambda body, context_length: None


@breaks("refusals.too_long")
def _():
    api.CONTEXT_LENGTH = 1 << 30
    edited("/get_server_capabilities$", supported_models=[{"model_name": "tiny/bytes", "max_context_length": 1000}])


@breaks("refusals.still_works")
def _():
    def damage(self, request, compute):
        try:
            return compute()
        except ModelError:
            trained = self.runs[proto.text(proto.parse(request.body), 1)]["model"]
            trained.rows = {last: [0.01 * i for i in range(256)] for last in range(256)}
            raise

    computed("/forward_backward", damage)


# ---- limits -----------------------------------------------------------------------------------


@breaks("limits.finished_session")
def _():
    status("/session_heartbeat$", 410, 200)


@breaks("limits.many_samples")
def _():
    count = itertools.count(1)
    answered(
        "/asample$",
        lambda self, request, response: Response({"detail": "busy"}, 503) if next(count) % 50 == 0 else response,
    )


@breaks("limits.heartbeat_under_load")
def _():
    async def late(self, request, response):
        await asyncio.sleep(11)
        return response

    answered("/session_heartbeat$", late)


@breaks("limits.whole_chunk")
def _():
    def refuse(self, request, compute):
        if len(proto.parse(request.body).get(3, [])) > 1000:
            raise ModelError("too many data")
        return compute()

    computed("/forward_backward", refuse)


@breaks("limits.long_poll")
def _():
    async def late(self, request, response):
        if response.is_proto and request.json()["request_id"].endswith(":2"):
            if not IS_SLOW:
                return Response.dropped()
            await asyncio.sleep(46)
        return response

    answered("/retrieve_future$", late)
