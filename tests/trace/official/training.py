"""Batches, steps, and what can happen to them on the way."""

from tinker.types import optimizer

from .common import *


def step(training, count):
    """One batch and one step, both under way before either is awaited."""
    gradients = training.forward_backward(data(count), "cross_entropy")
    update = training.optim_step(types.AdamParams())
    gradients.result()
    update.result()


def train_steps(count):
    service = tinker.ServiceClient()
    training = trainer(service)
    step(training, count)
    step(training, 1)
    finish(service)


def train_one_chunk():
    train_steps(1)


def train_two_chunks_parallel():
    train_steps(2)


def train_five_chunks_parallel():
    train_steps(5)


def train_two_chunks_serial():
    train_steps(2)


def train_five_chunks_serial():
    train_steps(5)


def train_chunks_by_bytes():
    train_steps(4)


def train_compressed():
    train_steps(2)


def train_forward():
    service = tinker.ServiceClient()
    training = trainer(service)
    training.forward(data(2), "cross_entropy").result()
    training.forward_backward(data(2), "cross_entropy").result()
    training.forward([policy_datum()], "ppo", {"clip_low_threshold": 0.9}).result()
    finish(service)


def train_model_options():
    service = tinker.ServiceClient()
    trainer(service, rank=8, seed=42, train_unembed=False, user_metadata={"stage": "sft"})
    trainer(service, rank=16, seed=-3, train_mlp=False, train_attn=False)
    training = trainer(service)
    training.get_info()
    finish(service)


def train_losses():
    service = tinker.ServiceClient()
    training = trainer(service)
    training.forward_backward(data(1), "cross_entropy", {}).result()
    training.forward_backward([policy_datum()], "importance_sampling").result()
    config = {"clip_low_threshold": 0.75, "clip_high_threshold": 2, "mode": "token"}
    training.forward_backward([policy_datum()], "ppo", config).result()
    finish(service)


def train_inputs():
    service = tinker.ServiceClient()
    training = trainer(service)
    matrix = types.Datum(
        model_input=text(65, 66),
        loss_fn_inputs={"target_tokens": [[66, 67], [67, 68]], "weights": [[0.5, 0.25], [1.0, -0.0]]},
    )
    sparse = types.Datum(
        model_input=text(65, 66),
        loss_fn_inputs={
            "target_tokens": types.TensorData(
                data=[66, 67, 68],
                dtype="int64",
                shape=[2, 8],
                sparse_crow_indices=[0, 1, 3],
                sparse_col_indices=[0, 2, 5],
            ),
            "weights": types.TensorData(
                data=[0.5, 1.5, -2.0],
                dtype="float32",
                shape=[2, 8],
                sparse_crow_indices=[0, 1, 3],
                sparse_col_indices=[0, 2, 5],
            ),
        },
    )
    picture = types.Datum(
        model_input=types.ModelInput(
            chunks=[
                types.EncodedTextChunk(tokens=[65]),
                types.ImageChunk(data=b"\x89PNG\r\n\x1a\n", format="png", expected_tokens=2),
                types.ImageChunk(data=b"\xff\xd8\xff\x00", format="jpeg", expected_tokens=1),
            ]
        ),
        loss_fn_inputs={"target_tokens": [66, 67, 68, 69], "weights": [0.0, 0.0, 0.0, 1.0]},
    )
    empty = types.Datum(
        model_input=text(), loss_fn_inputs={"target_tokens": types.TensorData(data=[], dtype="int64", shape=[0])}
    )
    training.forward_backward([matrix, sparse, picture, empty], "cross_entropy").result()
    finish(service)


def train_provenance():
    service = tinker.ServiceClient()
    training = trainer(service)
    example = types.Datum(
        model_input=text(65, 66, 67), loss_fn_inputs={"target_tokens": [66, 67, 68]}
    ).with_provenance(
        model_input=[
            types.PromptProvenanceSpan(sequence_id="sequence-1", offset=0, length=2),
            types.SampledProvenanceSpan(sequence_id="sequence-1", offset=5, length=1),
        ],
        loss_fn_inputs=[types.SampledProvenanceSpan(sequence_id="sequence-2", offset=1, length=3)],
    )
    training.forward_backward([example, datum(65)], "cross_entropy").result()
    finish(service)


def train_optimizers():
    service = tinker.ServiceClient()
    adam = trainer(service, optimizer=types.AdamOptimizerConfig())
    all_of_them = dict(learning_rate=2e-4, beta1=0.8, beta2=0.99, eps=1e-8, weight_decay=0.01, grad_clip_norm=1.0)
    adam.optim_step(types.AdamParams(**all_of_them)).result()
    dimuon = trainer(service, optimizer=types.DimuonOptimizerConfig())
    dimuon.optim_step(types.DimuonParams(learning_rate=0.02)).result()
    dimuon.optim_step(types.DimuonParams(learning_rate=0.0, grad_clip_norm=0.5, beta1=0.95)).result()
    family = optimizer.OptimizerConfigBase.model_validate({"type": "sophia", "rho": 0.04, "warm": True, "name": "x"})
    other = trainer(service, optimizer=family)
    other.optim_step(optimizer.OptimParamsBase.model_validate({"type": "sophia", "lr": 0.1, "k": [1, 2]})).result()
    finish(service)


def train_submission_retries():
    train_steps(1)


def train_submission_rounds():
    train_steps(1)


def train_poll_retries():
    service = tinker.ServiceClient()
    training = trainer(service)
    training.forward_backward(data(1), "cross_entropy").result()
    training.optim_step(types.AdamParams()).result()
    finish(service)


def train_stale_connection():
    train_steps(1)


def train_poll_bad_requests():
    service = tinker.ServiceClient()
    training = trainer(service)
    expect_error(lambda: training.forward_backward(data(1), "cross_entropy").result())
    finish(service)


train_poll_gone = train_poll_refused = train_poll_bad_requests


def train_failed_future():
    service = tinker.ServiceClient()
    training = trainer(service)
    expect_error(lambda: training.forward_backward(data(1), "cispo").result())
    training.optim_step(types.AdamParams(learning_rate=1e-3)).result()
    finish(service)


def train_failed_server():
    service = tinker.ServiceClient()
    training = trainer(service)
    expect_error(lambda: training.optim_step(types.AdamParams()).result())
    finish(service)


def train_submission_refused():
    service = tinker.ServiceClient()
    training = trainer(service)
    expect_error(lambda: training.forward_backward(data(1), "cross_entropy").result())
    training.optim_step(types.AdamParams()).result()
    finish(service)


def train_model_refused():
    service = tinker.ServiceClient()
    expect_error(lambda: trainer(service))
    trainer(service)
    finish(service)
