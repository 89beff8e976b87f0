"""The endpoints of the protocol, by method and path."""

import asyncio
import datetime
import hashlib
import re
import struct

from http1 import Response
from sampling import check_sample, sample_response
from training import ModelError, forward_backward
from model import Bigram

BASE_MODEL = "tiny/bytes"
BASE_MODELS = (BASE_MODEL, "tiny/other")  # the same model
CONTEXT_LENGTH = 32768
CHECKPOINT_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,255}")
BATCH_HOLD_SECONDS = 20
# Of an export; no test fetches them.
FILES = ("adapter_config.json", "adapter_model.safetensors", "checkpoint_complete")
OWNER = "tml:organization_user:abc"
# {"exp":4102444800,"sub":"tml:organization_user:abc","org_id":"lab","email":"ada@example.com"}
JWT = (
    "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InRtbDpvcmdhbml6YXRpb25fdXNlcjphYmMiLCJvcmdfaWQiOiJsYWIi"
    "LCJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSJ9.c2ln"
)

ROUTES = []


def route(method, pattern):
    """`{name}` in a pattern is one part of the path, `{name+}` one or more."""
    expression = re.sub(r"\{(\w+)\+\}", r"(?P<\1>.+?)", pattern)
    expression = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", expression)

    def add(handler):
        ROUTES.append((method, re.compile("/api/v1" + expression + "$"), handler))
        return handler

    return add


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def later(seconds):
    if seconds is None:
        return None
    instant = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return instant.isoformat().replace("+00:00", "Z")


class Refusal(Exception):
    def __init__(self, status, detail):
        self.response = Response({"detail": detail}, status)


# What a body that cannot be read makes of code that reads it.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error)


def look_up(table, key, what):
    if key not in table:
        raise Refusal(404, f"no {what} '{key}'")
    return table[key]


class Api:
    def __init__(self, config, dynamic_config):
        self.url = ""
        self.config = config
        self.dynamic_config = dynamic_config
        self.sessions = {}  # id -> the request that made it
        self.runs = {}  # id -> what made it, and its model
        self.samplers = {}  # id -> weights and where they are from
        self.checkpoints = {}  # tinker path -> entry of lists, and its model
        self.results = {}  # request id -> Response
        self.completions = {}  # (sampling session, clone) -> ids in order
        self.clones = {}  # sampling session -> how many joined
        self.accepted = {}  # request id -> the answer to its submission, and the hash of its body
        self.finished = asyncio.Condition()

    async def answer(self, request):
        for method, pattern, handler in ROUTES:
            match = pattern.match(request.path)
            if match and method == request.method:
                try:
                    out = handler(self, request, **match.groupdict())
                    out = await out if asyncio.iscoroutine(out) else out
                except Refusal as refusal:
                    return refusal.response
                except UNREADABLE as error:
                    return Response({"detail": f"{type(error).__name__}: {error}"}, 422)
                return out if isinstance(out, Response) else Response(out)
        return Response({"detail": f"no endpoint {request.method} {request.path}"}, 404)

    def accept(self, request_id, request, compute, **extra):
        """Takes an operation in, once however often it is sent; it is done at once."""
        # A save without a name may be repeated with another number of its sampling session.
        body = re.sub(rb'"sampling_session_seq_id":\d+', b"", request.body)
        digest = hashlib.sha256(body).digest()
        answer, first = self.accepted.setdefault(request_id, ({"request_id": request_id, **extra}, digest))
        if first != digest:
            raise Refusal(400, f"{request_id} was sent before, with another body")
        if request_id not in self.results:
            try:
                out = compute()
            except ModelError as error:
                out = {"error": str(error), "category": "user"}
            self.results[request_id] = out if isinstance(out, Response) else Response(out)
        return answer

    def accept_numbered(self, request, model_id, seq_id, compute, is_barrier=True):
        """The same for an operation on a model: a number below one that others wait for comes too late."""
        run = look_up(self.runs, model_id, "model")

        def in_order():
            if seq_id < run["barrier"]:
                raise ModelError(f"seq_id {seq_id} comes after {run['barrier']}")
            run["barrier"] = seq_id if is_barrier else run["barrier"]
            return compute()

        return self.accept(f"{model_id}:{seq_id}", request, in_order, model_id=model_id)

    def add_checkpoint(self, run_id, kind, name, body):
        if not CHECKPOINT_NAME.fullmatch(name):
            raise ModelError(f"'{name}' is no name of a checkpoint")
        path = f"tinker://{run_id}/{kind}/{name}"
        if path in self.checkpoints and not body.get("overwrite"):
            raise ModelError(f"there is a checkpoint '{name}' already")
        run = self.runs[run_id]
        types = {"weights": "training", "sampler_weights": "sampler", "external_weights": "external"}
        self.checkpoints[path] = {
            "entry": {
                "checkpoint_id": f"{kind}/{name}",
                "checkpoint_type": types[kind],
                "time": now(),
                "tinker_path": path,
                "size_bytes": 1024,
                "public": False,
                "user_metadata": body.get("user_metadata"),
                "expires_at": later(body.get("ttl_seconds")),
            },
            "model": run["model"].snapshot(),
            "run": run,
        }
        return path

    def add_sampler(self, sampler_id, model, source):
        self.samplers[sampler_id] = {"model": model, "model_path": source}
        return sampler_id

    def entries(self, run_id=None):
        return [
            checkpoint["entry"]
            for path, checkpoint in self.checkpoints.items()
            if run_id is None or path.startswith(f"tinker://{run_id}/")
        ]

    def describe_run(self, run_id):
        run = look_up(self.runs, run_id, "training run")
        latest = lambda kind: next((e for e in reversed(self.entries(run_id)) if e["checkpoint_type"] == kind), None)
        return {
            "training_run_id": run_id,
            "base_model": run["base_model"],
            "model_owner": OWNER,
            "is_lora": True,
            "corrupted": False,
            "lora_rank": run["lora"]["rank"],
            "last_request_time": now(),
            "last_checkpoint": latest("training"),
            "last_sampler_checkpoint": latest("sampler"),
            "user_metadata": run["user_metadata"],
        }

    # The life of a session.

    @route("POST", "/client/config")
    def client_config(self, request):
        return self.config

    @route("POST", "/client/dynamic_config")
    def client_dynamic_config(self, request):
        return self.dynamic_config

    @route("POST", "/auth/token")
    def auth_token(self, request):
        return {"jwt": JWT}

    @route("POST", "/create_session")
    def create_session(self, request):
        session_id = f"session-{len(self.sessions) + 1}"
        self.sessions[session_id] = {**request.json(), "is_finished": False}
        return {"type": "create_session", "session_id": session_id}

    @route("POST", "/session_heartbeat")
    def session_heartbeat(self, request):
        session = look_up(self.sessions, request.json()["session_id"], "session")
        if session["is_finished"]:
            raise Refusal(410, "the session is finished")
        return {"type": "session_heartbeat"}

    @route("POST", "/telemetry")
    def telemetry(self, request):
        return {"status": "accepted"}

    @route("GET", "/get_server_capabilities")
    def capabilities(self, request):
        model = {"model_name": BASE_MODEL, "max_context_length": CONTEXT_LENGTH, "trainable": True, "sampleable": True}
        return {"supported_models": [model]}

    @route("GET", "/healthz")
    def health(self, request):
        return {"status": "ok"}

    @route("POST", "/sessions/{session_id}/finish")
    def finish(self, request, session_id):
        look_up(self.sessions, session_id, "session")["is_finished"] = True
        return {}

    # Training.

    def new_run(self, session_id, model_seq_id, base_model, lora, user_metadata, model):
        run_id = f"{session_id}:train:{model_seq_id}"
        self.runs[run_id] = {
            "base_model": base_model,
            "lora": lora,
            "user_metadata": user_metadata,
            "model": model,
            "barrier": 0,
        }
        return run_id

    def check_base_model(self, name):
        if name not in BASE_MODELS:
            raise Refusal(404, f"no model '{name}'")

    @route("POST", "/create_model")
    def create_model(self, request):
        body = request.json()
        look_up(self.sessions, body["session_id"], "session")
        run_id = f"{body['session_id']}:train:{body['model_seq_id']}"
        self.check_base_model(body["base_model"])

        def compute():
            arguments = body["session_id"], body["model_seq_id"], body["base_model"], body["lora_config"]
            self.new_run(*arguments, body.get("user_metadata"), Bigram())
            return {"model_id": run_id, "type": "create_model"}

        return self.accept(f"{run_id}:0", request, compute, model_id=run_id)

    @route("POST", "/get_info")
    def get_info(self, request):
        run = look_up(self.runs, request.json()["model_id"], "model")
        return {
            "type": "get_info",
            "model_data": {"arch": "bigram", "model_name": run["base_model"], "tokenizer_id": run["base_model"]},
            "model_id": request.json()["model_id"],
            "is_lora": True,
            "lora_rank": run["lora"]["rank"],
            "model_name": run["base_model"],
        }

    @route("POST", "/forward_backward")
    def forward_backward(self, request):
        is_compressed = request.headers.get("content-encoding") == "zstd"
        if request.headers.get("content-type") != "application/x-protobuf":
            raise Refusal(415, "a body of forward_backward is application/x-protobuf")
        model_of = lambda id: look_up(self.runs, id, "model")["model"]
        model_id, seq_id, compute = forward_backward(request.body, is_compressed, model_of)
        return self.accept_numbered(request, model_id, seq_id, compute, is_barrier=False)

    @route("POST", "/optim_step")
    def optim_step(self, request):
        body = request.json()
        model = look_up(self.runs, body["model_id"], "model")["model"]

        def compute():
            if "adam_params" not in body:
                raise ModelError("this server has no optimizer but AdamW")
            return {"metrics": {"unclipped_grad_l2:mean": model.adam_step(**body["adam_params"])}}

        return self.accept_numbered(request, body["model_id"], body["seq_id"], compute)

    @route("POST", "/unload_model")
    def unload_model(self, request):
        model_id = request.json()["model_id"]
        look_up(self.runs, model_id, "model")
        return self.accept(f"{model_id}:unload", request, lambda: {"model_id": model_id, "type": "unload_model"})

    def save(self, request, kind, result_type):
        body = request.json()
        look_up(self.runs, body["model_id"], "model")
        compute = lambda: {
            "path": self.add_checkpoint(body["model_id"], kind, body["path"], body),
            "type": result_type,
        }
        return self.accept_numbered(request, body["model_id"], body["seq_id"], compute)

    @route("POST", "/save_weights")
    def save_weights(self, request):
        return self.save(request, "weights", "save_weights")

    @route("POST", "/save_weights_external")
    def save_weights_external(self, request):
        return self.save(request, "external_weights", "save_weights_external")

    @route("POST", "/save_weights_for_sampler")
    def save_weights_for_sampler(self, request):
        body = request.json()
        if "path" in body:
            return self.save(request, "sampler_weights", "save_weights_for_sampler")
        run = look_up(self.runs, body["model_id"], "model")
        sampler_id = f"{body['model_id'].partition(':')[0]}:sample:{body['sampling_session_seq_id']}"
        compute = lambda: {"sampling_session_id": self.add_sampler(sampler_id, run["model"].snapshot(), None)}
        return self.accept_numbered(request, body["model_id"], body["seq_id"], compute)

    @route("POST", "/load_weights")
    def load_weights(self, request):
        body = request.json()
        source = look_up(self.checkpoints, body["path"], "checkpoint")
        model = source["model"].snapshot() if body["optimizer"] else source["model"].without_optimizer()
        run_id = body.get("model_id") or f"{body['session_id']}:train:{body['model_seq_id']}"

        def compute():
            if "model_id" in body:
                self.runs[run_id]["model"] = model
            else:
                run = source["run"]
                base_model = body.get("base_model", run["base_model"])
                arguments = body["session_id"], body["model_seq_id"], base_model, run["lora"]
                self.new_run(*arguments, body.get("user_metadata"), model)
            return {"path": body["path"], "model_id": run_id, "type": "load_weights"}

        if "model_id" in body:
            return self.accept_numbered(request, run_id, body["seq_id"], compute)
        return self.accept(f"{run_id}:0", request, compute, model_id=run_id)

    @route("POST", "/create_custom_loss")
    def create_custom_loss(self, request):
        body = request.json()
        number = body["custom_loss_seq_id"]
        compute = lambda: {"loss_id": f"loss-{number}", "type": "create_custom_loss"}
        return self.accept(f"{body['session_id']}:loss:{number}", request, compute)

    # Sampling.

    @route("POST", "/create_sampling_session")
    def create_sampling_session(self, request):
        body = request.json()
        look_up(self.sessions, body["session_id"], "session")
        model, path = Bigram(), body.get("model_path")
        if path is None:
            self.check_base_model(body["base_model"])
        else:
            model = look_up(self.checkpoints, path, "checkpoint")["model"]
        sampler_id = f"{body['session_id']}:sample:{body['sampling_session_seq_id']}"
        return {"type": "create_sampling_session", "sampling_session_id": self.add_sampler(sampler_id, model, path)}

    @route("POST", "/join_sampling_session")
    def join_sampling_session(self, request):
        sampler_id = request.json()["sampling_session_id"]
        self.clones[sampler_id] = self.clones.get(sampler_id, 0) + 1
        return {"type": "join_sampling_session", "client_counter": self.clones[sampler_id]}

    @route("POST", "/asample")
    async def asample(self, request):
        body = request.json()
        sampler_id, seq_id = body["sampling_session_id"], body["seq_id"]
        sampler = look_up(self.samplers, sampler_id, "sampling session")
        request_id = f"{sampler_id}:{seq_id}"
        ids = [f"{request_id}:{i}" for i in range(body["num_samples"])]
        compute = lambda: sample_response(sampler["model"], body)
        check_sample(body, CONTEXT_LENGTH)
        answer = self.accept(request_id, request, compute, sample_sequence_ids=ids)
        async with self.finished:
            done = self.completions.setdefault((sampler_id, seq_id // 10**9), [])
            if request_id not in done:
                done.append(request_id)
            self.finished.notify_all()
        return answer

    @route("POST", "/retrieve_future")
    def retrieve_future(self, request):
        return look_up(self.results, request.json()["request_id"], "request")

    @route("POST", "/retrieve_futures")
    async def retrieve_futures(self, request):
        body = request.json()
        target = body["target"]["sampling_session_id"], body["target"]["cloned_sampler_id"]
        done = self.completions.setdefault(target, [])
        cursor = body["prev_cursor"]
        async with self.finished:
            try:
                await asyncio.wait_for(self.finished.wait_for(lambda: len(done) > cursor), BATCH_HOLD_SECONDS)
            except asyncio.TimeoutError:
                pass
        completions = [
            {
                "state": "failed" if b'"error"' in self.results[id].body[:8] else "finished",
                "request_id": id,
                "response_payload_uncompressed_size": len(self.results[id].body),
            }
            for id in done[cursor:]
        ]
        return {"completions": completions, "cursor": len(done)}

    @route("POST", "/cancel_future")
    def cancel_future(self, request):
        return {}

    @route("GET", "/samplers/{sampler_id}")
    def get_sampler(self, request, sampler_id):
        sampler = look_up(self.samplers, sampler_id, "sampler")
        return {"sampler_id": sampler_id, "base_model": BASE_MODEL, "model_path": sampler["model_path"]}

    # What is on the server.

    @route("POST", "/weights_info")
    def weights_info(self, request):
        run = look_up(self.checkpoints, request.json()["tinker_path"], "checkpoint")["run"]
        lora = run["lora"]
        flags = {name: lora[name] for name in ("train_unembed", "train_mlp", "train_attn")}
        return {
            "base_model": run["base_model"],
            "optimizer_config": {"type": "adamw"},
            "is_lora": True,
            "lora_rank": lora["rank"],
            **flags,
        }

    @route("GET", "/training_runs")
    def training_runs(self, request):
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        ids = list(self.runs)[offset : offset + limit]
        cursor = {"offset": offset, "limit": limit, "total_count": len(self.runs)}
        return {"training_runs": [self.describe_run(id) for id in ids], "cursor": cursor}

    @route("GET", "/training_runs/{run_id}")
    def training_run(self, request, run_id):
        return self.describe_run(run_id)

    @route("GET", "/training_runs/{run_id}/checkpoints")
    def run_checkpoints(self, request, run_id):
        return {"checkpoints": self.entries(run_id)}

    @route("GET", "/checkpoints")
    def all_checkpoints(self, request):
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        entries = self.entries()[::-1]
        cursor = {"offset": offset, "limit": limit, "total_count": len(entries)}
        return {"checkpoints": entries[offset : offset + limit], "cursor": cursor}

    def checkpoint_of(self, run_id, checkpoint_id):
        return look_up(self.checkpoints, f"tinker://{run_id}/{checkpoint_id}", "checkpoint")

    @route("GET", "/training_runs/{run_id}/checkpoints/{checkpoint_id+}/external_weights_urls")
    def external_weights_urls(self, request, run_id, checkpoint_id):
        self.checkpoint_of(run_id, checkpoint_id)
        urls = {name: f"{self.url}/storage/{run_id}/{checkpoint_id}/{name}?signature=s" for name in FILES}
        return {"urls": urls, "expires": "2099-01-01T00:00:00Z"}

    @route("DELETE", "/training_runs/{run_id}/checkpoints/{checkpoint_id+}/publish")
    def unpublish(self, request, run_id, checkpoint_id):
        self.checkpoint_of(run_id, checkpoint_id)["entry"]["public"] = False
        return {}

    @route("POST", "/training_runs/{run_id}/checkpoints/{checkpoint_id+}/publish")
    def publish(self, request, run_id, checkpoint_id):
        self.checkpoint_of(run_id, checkpoint_id)["entry"]["public"] = True
        return {}

    @route("PUT", "/training_runs/{run_id}/checkpoints/{checkpoint_id+}/ttl")
    def set_ttl(self, request, run_id, checkpoint_id):
        checkpoint = self.checkpoint_of(run_id, checkpoint_id)
        checkpoint["entry"]["expires_at"] = later(request.json()["ttl_seconds"])
        return {}

    @route("DELETE", "/training_runs/{run_id}/checkpoints/{checkpoint_id+}")
    def delete_checkpoint(self, request, run_id, checkpoint_id):
        self.checkpoint_of(run_id, checkpoint_id)
        del self.checkpoints[f"tinker://{run_id}/{checkpoint_id}"]
        return {}

    @route("POST", "/copy_weights")
    def copy_weights(self, request):
        source = request.json()["source_path"]
        checkpoint = look_up(self.checkpoints, source, "checkpoint")
        path = source.replace("tinker://", "tinker://copy-of-", 1)
        self.checkpoints[path] = {**checkpoint, "entry": {**checkpoint["entry"], "tinker_path": path}}
        return {"tinker_path": path}

    @route("GET", "/sessions")
    def list_sessions(self, request):
        return {"sessions": list(self.sessions)}

    @route("GET", "/sessions/{session_id}")
    def get_session(self, request, session_id):
        session = look_up(self.sessions, session_id, "session")
        mine = lambda table: [id for id in table if id.startswith(session_id + ":")]
        return {
            "training_run_ids": mine(self.runs),
            "sampler_ids": mine(self.samplers),
            "user_metadata": session.get("user_metadata"),
            "display_name": session.get("display_name"),
        }

    @route("POST", "/sessions/search")
    def search_sessions(self, request):
        summary = lambda id: {
            "session_id": id,
            "created_at": now(),
            "owner": OWNER,
            "project_id": "",
            "status": {"type": "active"},
            "checkpoints_count": len(self.entries()),
        }
        return {"sessions": [summary(id) for id in self.sessions], "next_cursor": None}

    @route("PUT", "/sessions/{session_id}/project")
    def assign_project(self, request, session_id):
        look_up(self.sessions, session_id, "session")
        return {}

    @route("GET", "/sessions/{session_id}/trace_export")
    def trace_export(self, request, session_id):
        return {"status": "ready", "url": f"{self.url}/storage/trace?signature=s"}

    @route("GET", "/audit")
    def audit(self, request):
        return {"entries": [{"timestamp": now(), "event": "checkpoint_read", "event_details": {}}]}

    @route("GET", "/billing/usage/events")
    def billing(self, request):
        return {"data": [], "sessions": {}}

    @route("GET", "/billing/usage/checkpoints/current")
    def storage_usage(self, request):
        return {"data": [{"checkpoint_count": len(self.checkpoints), "size_bytes": 0, "size_gigabytes": 0.0}]}
