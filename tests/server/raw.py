"""Requests that no client of the SDK would make: plain HTTP, with JSON or protobuf bodies."""

import contextlib
import dataclasses
import http.client
import json
import socket
import time
import urllib.parse
import uuid

import numpy as np
from served import BASE_MODEL, LOCAL_KEY
from tinker.proto import tinker_public_pb2 as pb

PROTOBUF = "application/x-protobuf"
POLL_SECONDS = 45  # the official client gives up a poll then


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict
    body: bytes
    seconds: float

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def is_protobuf(self):
        return PROTOBUF in self.headers.get("content-type", "")

    @property
    def detail(self):
        """The reason of a refusal, which must have one (PROTOCOL 6.1, 10.9)."""
        return json.dumps(self.json["detail"])


class Api:
    """One caller. Each request has a connection of its own."""

    def __init__(self, url, key=LOCAL_KEY, **headers):
        self.address = urllib.parse.urlsplit(url).netloc
        self.headers = {"X-API-Key": key, "Accept": "application/json", **headers}

    def send(self, method, path, body=None, **headers):
        """The connection, with the request on its way. `body`: bytes as they are, anything else as JSON."""
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if method != "GET":
            sent.setdefault("X-Idempotency-Key", str(uuid.uuid4()))
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.address, timeout=POLL_SECONDS)
        target = path if path.startswith("/") else "/api/v1/" + path
        connection.request(method, target, body=body, headers=sent)
        return connection

    def call(self, method, path, body=None, **headers):
        start = time.monotonic()
        with contextlib.closing(self.send(method, path, body, **headers)) as connection:
            response = connection.getresponse()
            content = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, content, time.monotonic() - start)

    def get(self, path, **headers):
        return self.call("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.call("POST", path, body, **headers)

    def send_and_vanish(self, method, path, body=None, **headers):
        """Closes the socket before the answer can have come."""
        connection = self.send(method, path, body, **headers)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()

    # ---- futures ----

    def poll(self, request_id, allow_metadata_only=False, accept=PROTOBUF):
        body = {"request_id": request_id, "allow_metadata_only": allow_metadata_only}
        return self.post("retrieve_future", body, Accept=accept)

    def result(self, request_id, seconds=60, accept=PROTOBUF):
        """The first answer that is neither 408 nor try_again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = self.poll(request_id, accept=accept)
            is_pending = answer.status == 408
            if answer.status == 200 and not answer.is_protobuf:
                is_pending = answer.json.get("type") == "try_again"
            if not is_pending:
                return answer
        raise AssertionError(f"'{request_id}' has no result after {seconds} s")

    def done(self, path, body, **headers):
        """Submits an operation; yields its result as JSON (`error` where it failed)."""
        answer = self.post(path, body, **headers)
        assert answer.status == 200, (path, answer)
        return self.result(answer.json["request_id"]).json

    # ---- what most tests begin with ----

    def session(self, **members):
        body = {"tags": [], "user_metadata": {}, "sdk_version": "0.36.0", "type": "create_session", **members}
        answer = self.post("create_session", body)
        assert answer.status == 200, answer
        return answer.json["session_id"]

    def model(self, session=None, number=0, rank=4, **members):
        result = self.done("create_model", create_model(session or self.session(), number, rank, **members))
        return result["model_id"]

    def sampler(self, session, number=0, **members):
        body = {"session_id": session, "sampling_session_seq_id": number, "type": "create_sampling_session"}
        answer = self.post("create_sampling_session", {**body, **(members or {"base_model": BASE_MODEL})})
        assert answer.status == 200, answer
        return answer.json["sampling_session_id"]

    def forward_backward(self, model_id, seq_id, **members):
        return self.post("forward_backward", forward_backward(model_id, seq_id, **members), Content_Type=PROTOBUF)

    def output(self, request_id):
        """Of a pass that must succeed."""
        answer = self.result(request_id)
        assert answer.is_protobuf, answer
        return pb.ForwardBackwardOutput.FromString(answer.body)


def create_model(session, number=0, rank=4, **members):
    lora = {"rank": rank, "seed": 1, "train_unembed": True, "train_mlp": True, "train_attn": True}
    body = {"session_id": session, "model_seq_id": number, "base_model": BASE_MODEL, "lora_config": lora}
    return {**body, "optimizer_config": {"type": "adamw"}, "type": "create_model", **members}


def forward_backward(model_id, seq_id, batch=((5, 9, 2, 7),), loss="cross_entropy", config=None, forward_only=False):
    """The protobuf body; each text of `batch` predicts its own tokens, all with weight 1."""
    message = pb.ForwardBackwardRequest(model_id=model_id, seq_id=seq_id, loss_fn=loss, forward_only=forward_only)
    for name, value in (config or {}).items():
        message.loss_fn_config_v2[name].number = value
    for tokens in batch:
        datum = message.data.add()
        datum.model_input.add().encoded_text.tokens = np.asarray(tokens[:-1], np.int32).tobytes()
        put_tensor(datum, "target_tokens", np.asarray(tokens[1:], np.int64))
        put_tensor(datum, "weights", np.ones(len(tokens) - 1, np.float32))
    return message.SerializeToString()


def put_tensor(datum, name, array):
    tensor = datum.loss_fn_inputs[name]
    tensor.dense = array.tobytes()
    tensor.dtype = pb.DTYPE_FLOAT32 if array.dtype == np.float32 else pb.DTYPE_INT64
    tensor.shape.extend(array.shape)


def optim_step(model_id, seq_id, learning_rate=1e-2):
    adam = {"learning_rate": learning_rate, "beta1": 0.9, "beta2": 0.95, "eps": 1e-12}
    adam |= {"weight_decay": 0.0, "grad_clip_norm": 0.0}
    return {"model_id": model_id, "seq_id": seq_id, "type": "optim_step", "adam_params": adam}


def save(model_id, seq_id, name, **members):
    return {"model_id": model_id, "path": name, "seq_id": seq_id, "overwrite": False, "type": "save_weights", **members}


def asample(sampler, seq_id, tokens=(1, 2, 3), num_samples=1, **members):
    params = {"max_tokens": 4, "temperature": 1.0, "top_k": -1, "top_p": 1.0, "stop": []}
    params |= members.pop("params", {})
    body = {"num_samples": num_samples, "prompt": {"chunks": [{"tokens": list(tokens), "type": "encoded_text"}]}}
    body |= {"sampling_params": params, "sampling_session_id": sampler, "seq_id": seq_id, "prompt_logprobs": False}
    body |= {"topk_prompt_logprobs": 0, "topk_sample_logprobs": 0, "prompt_alt_tokens_k": 0}
    return {**body, "record_stability_info": False, "type": "sample", **members}


def sampled(answer):
    """The message of a sample's result."""
    assert answer.is_protobuf, answer
    return pb.SampleResponse.FromString(answer.body)


def tokens_of(sequence):
    return np.frombuffer(sequence.tokens, np.int32).tolist()


def logprobs_of(output, datum=0):
    """Of one datum of a pass, as bytes."""
    for record in output.loss_fn_outputs:
        column = record.fields["logprobs"]
        offsets = np.frombuffer(column.offsets, np.int64)
        if datum < len(offsets) - 1:
            return column.data[offsets[datum] : offsets[datum + 1]]
        datum -= len(offsets) - 1
    raise IndexError("no such datum")
