"""The work of wire_bench.cc done by the official Python SDK. Prints milliseconds by row name as JSON."""

import json
import sys
import time

import numpy as np
import tinker
from tinker import types
from tinker.proto import tinker_public_pb2 as pb
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import (
    deserialize_forward_backward_output,
    deserialize_sample_response,
)
from tinker.types.forward_backward_input import ForwardBackwardInput
from tinker.types.forward_backward_request import ForwardBackwardRequest
from tinker.types.sample_request import SampleRequest

DATUMS, TOKENS = 512, 2048
PROMPT = 65536
SEQUENCES, SAMPLED = 16, 16384
VOCABULARY = 150_000


def best(work, repeat=5):
    """Milliseconds of the fastest of `repeat` runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def forward_backward(rng):
    tokens = [rng.integers(0, VOCABULARY, TOKENS).tolist() for _ in range(DATUMS)]
    weights = [[1.0] * TOKENS for _ in range(DATUMS)]

    def work():
        data = [
            types.Datum(
                model_input=types.ModelInput.from_ints(t),
                loss_fn_inputs={"target_tokens": t, "weights": w},
            )
            for t, w in zip(tokens, weights)
        ]
        request = ForwardBackwardRequest(
            forward_backward_input=ForwardBackwardInput(data=data, loss_fn="cross_entropy"),
            model_id="run:train:0",
            seq_id=1,
        )
        return forward_backward_request_to_proto(request).SerializeToString()

    return work


def prompt(rng):
    tokens = rng.integers(0, VOCABULARY, PROMPT).tolist()
    request = SampleRequest(
        prompt=types.ModelInput.from_ints(tokens),
        sampling_params=types.SamplingParams(max_tokens=64, temperature=0.7),
        sampling_session_id="session:sample:0",
        seq_id=0,
        prompt_logprobs=False,
    )
    # What its HTTP layer does with a request model: dump to plain values, then compact JSON.
    return lambda: json.dumps(
        request.model_dump(exclude_unset=False, exclude_none=True, mode="json"),
        ensure_ascii=False,
        separators=(",", ":"),
        allow_nan=False,
    ).encode()


def sample_response(rng):
    message = pb.SampleResponse()
    for _ in range(SEQUENCES):
        sequence = message.sequences.add()
        sequence.tokens = rng.integers(0, VOCABULARY, SAMPLED).astype(np.int32).tobytes()
        sequence.logprobs = (-8 * rng.random(SAMPLED)).astype(np.float32).tobytes()
    body = message.SerializeToString()

    def work():
        response = deserialize_sample_response(body)
        return [(s.tokens, s.logprobs) for s in response.sequences]  # lists: what its users read

    return work


def forward_backward_output(rng):
    message = pb.ForwardBackwardOutput(loss_fn_output_type="TorchLossReturn")
    record = message.loss_fn_outputs.add(type_tag="TorchLossReturn", num_datums=DATUMS)
    field = record.fields["logprobs"]
    field.data = (-8 * rng.random(DATUMS * TOKENS)).astype(np.float32).tobytes()
    field.offsets = (np.arange(DATUMS + 1, dtype=np.int64) * TOKENS * 4).tobytes()
    field.dtype = pb.DTYPE_FLOAT32
    message.metrics["loss:sum"] = 3.5
    body = message.SerializeToString()
    return lambda: deserialize_forward_backward_output(body)  # NumPy-backed tensors, not lists


ROWS = {
    "build+serialise forward_backward": forward_backward,
    "serialise prompt": prompt,
    "parse sample response": sample_response,
    "parse forward_backward output": forward_backward_output,
}

if __name__ == "__main__":
    rng = np.random.default_rng(1)
    rows = {name: best(make(rng)) for name, make in ROWS.items()}
    json.dump({"peer": f"tinker {tinker.__version__} (Python)", "milliseconds": rows}, sys.stdout)
