"""Losses of the caller's own. Needs torch."""

from .common import *


def half_square(logprobs, weights):
    loss = (logprobs * logprobs * 0.5 * weights).sum()
    return loss, {"custom/half_square:sum": loss, "custom/first:mean": logprobs[0]}


def loss_of_a_function():
    def negative_sum(batch, logprobs):
        return -sum(row.sum() for row in logprobs) * 0.5, {"mine": 1.0}

    service = tinker.ServiceClient()
    training = trainer(service)
    without_weights = types.Datum(model_input=text(70, 71), loss_fn_inputs={"target_tokens": [71, 72]})
    extra = types.Datum(
        model_input=text(70, 71),
        loss_fn_inputs={
            "target_tokens": [[71, 72], [72, 73]],
            "mine": types.TensorData(data=[1.0, 2.0], dtype="float32", shape=[2]),
        },
    )
    training.forward_backward_custom([datum(65), without_weights, extra], negative_sum).result()
    training.optim_step(types.AdamParams()).result()
    finish(service)


def loss_of_two_chunks():
    def squares(batch, logprobs):
        return sum((row * row).sum() * 0.5 for row in logprobs), {}

    service = tinker.ServiceClient()
    training = trainer(service)
    training.forward_backward_custom(data(2), squares).result()
    training.optim_step(types.AdamParams()).result()
    finish(service)


def use_handle():
    service = tinker.ServiceClient()
    training = trainer(service)
    handle = service.create_custom_loss(half_square, {"logprobs": 1, "weights": 1}).result()
    training.forward_backward_custom(data(1), handle).result()
    training.optim_step(types.AdamParams()).result()
    finish(service)


def loss_handle_client_side():
    use_handle()


def loss_handle_server_side():
    use_handle()


def loss_upload_retries():
    use_handle()
