"""What the scripts share. `scripts.h` is the same in C++."""

import time

import tinker
from tinker import types

BASE_MODEL = "tiny/bytes"


def text(*tokens):
    return types.ModelInput.from_ints(list(tokens))


def datum(first):
    """Three tokens from `first` on, each of which predicts the next."""
    tokens = [first, first + 1, first + 2]
    return types.Datum(
        model_input=text(*tokens),
        loss_fn_inputs={"target_tokens": [token + 1 for token in tokens], "weights": [1.0, 0.5, 2.0]},
    )


def data(count):
    return [datum(65 + i) for i in range(count)]


def policy_datum():
    return types.Datum(
        model_input=text(72, 73),
        loss_fn_inputs={"target_tokens": [73, 74], "logprobs": [-4.5, -4.25], "advantages": [1.0, -0.5]},
    )


def trainer(service, **options):
    return service.create_lora_training_client(BASE_MODEL, **options)


def sampler(service, **options):
    return service.create_sampling_client(base_model=BASE_MODEL, **options)


def short(**others):
    """Two tokens, the most likely ones."""
    return types.SamplingParams(max_tokens=2, temperature=0.0, **others)


def expect_error(call):
    try:
        call()
    except Exception:
        return
    raise AssertionError("this call should fail")


def pause(seconds):
    """For the few scripts in which something must arrive before the next call."""
    time.sleep(seconds)


def finish(service):
    service.close("success").result()


__all__ = [name for name in globals() if not name.startswith("_")]
