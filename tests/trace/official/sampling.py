"""Samples, their read-outs, and what can happen to them on the way."""

from tinker.lib.retry_handler import RetryConfig

from .common import *


def samples(*calls):
    """Makes each call with a sampler of a new session, one after the other."""
    service = tinker.ServiceClient()
    sampling = sampler(service)
    for call in calls:
        call(sampling)
    finish(service)


def one(sampling):
    sampling.sample(text(65, 66), 1, short()).result()


def one_fails(sampling):
    expect_error(lambda: one(sampling))


def sample_parameters():
    prompt = text(65, 66)

    def with_params(count, **params):
        return lambda sampling: sampling.sample(prompt, count, types.SamplingParams(**params)).result()

    samples(
        with_params(1),
        with_params(3, max_tokens=4, seed=7, temperature=0.5, top_k=40, top_p=0.9, stop="x"),
        with_params(1, max_tokens=2, seed=2**63 - 1, stop=["x", "yz"]),
        with_params(1, max_tokens=2, seed=-5, stop=[10, 13], temperature=0.0),
        with_params(1, max_tokens=2, stop=[], temperature=1e-05, top_p=1),
    )


def sample_readouts():
    prompt = text(65, 66, 67, 68)
    dense = types.TensorData(data=[66, 70, 67, -1, -1, -1], dtype="int64", shape=[3, 2])

    def with_readouts(**readouts):
        return lambda sampling: sampling.sample(prompt, 1, short(), **readouts).result()

    samples(
        with_readouts(include_prompt_logprobs=True),
        with_readouts(include_prompt_logprobs=True, prompt_logprobs_last_n=2, topk_prompt_logprobs=3),
        with_readouts(topk_sample_logprobs=2),
        with_readouts(target_prompt_logprobs=dense),
        with_readouts(prompt_alt_tokens_k=2),
        lambda sampling: sampling.compute_logprobs(prompt).result(),
        lambda sampling: sampling.compute_logprobs(prompt, prompt_logprobs_last_n=1).result(),
    )


def sample_sparse_targets():
    sparse = types.TensorData(
        data=[70, 71],
        dtype="int64",
        shape=[3, 4],
        sparse_crow_indices=[0, 0, 1, 2],
        sparse_col_indices=[0, 3],
    )
    samples(lambda sampling: sampling.sample(text(65, 66, 67, 68), 1, short(), target_prompt_logprobs=sparse).result())


def sample_images():
    prompt = types.ModelInput(
        chunks=[
            types.EncodedTextChunk(tokens=[65, 66]),
            types.ImageChunk(data=b"\x89PNG\r\n\x1a\n", format="png", expected_tokens=16),
            types.ImageChunk(data=b"\xff\xd8\xff", format="jpeg"),
            types.ImageAssetPointerChunk(format="png", location="tinker://images/cat.png", expected_tokens=16),
            types.EncodedTextChunk(tokens=[67]),
        ]
    )
    samples(lambda sampling: sampling.sample(prompt, 1, short()).result())


def sample_client_options():
    service = tinker.ServiceClient()
    sampler(service, record_stability_info=True).sample(text(65), 2, short()).result()
    second = sampler(service, retry_config=RetryConfig(enable_retry_logic=False))
    second.sample(text(66), 1, short()).result()
    second.get_base_model()
    finish(service)


def sample_many():
    def at_once(sampling):
        futures = [sampling.sample(text(65 + i), 1, short()) for i in range(8)]
        for future in futures:
            future.result()

    samples(at_once)


def sample_submission_rounds():
    samples(one)


def sample_backs_off():
    samples(one, one)


def sample_unpaid():
    samples(one)


def sample_poll_retries():
    samples(one)


def sample_starts_again():
    samples(one, one)


def sample_once_only():
    samples(one_fails, one)


def sample_failed():
    samples(one_fails, one)


def sample_refused():
    samples(one_fails)


def sample_bad_arguments():
    prompt = text(65, 66)
    samples(
        lambda s: expect_error(lambda: s.sample(prompt, 1, short(), prompt_alt_tokens_k=-1).result()),
        lambda s: expect_error(lambda: s.sample(prompt, 1, short(), prompt_logprobs_last_n=1).result()),
        one,
    )


def sample_metadata_first():
    samples(one)


def sample_batched():
    samples(one, one)


def sample_batched_failed():
    samples(one_fails, one)


def sample_batched_retries():
    samples(one)


def sample_cancelled():
    def cancel(sampling):
        future = sampling.sample(text(65), 1, short())
        pause(0.5)
        future.cancel()
        pause(0.5)

    samples(cancel, one)


def sample_cancelled_silently():
    sample_cancelled()


def sampler_handle():
    service = tinker.ServiceClient(default_headers_overrides={"X-Team": "ml"})
    handle = sampler(service, record_stability_info=True).get_sampler_handle()
    restored = tinker.SamplingClient.from_sampler_handle(handle)
    one(restored)
    one(restored)
    finish(service)


def sampler_handle_joins():
    service = tinker.ServiceClient()
    original = sampler(service)
    one(original)
    first = tinker.SamplingClient.from_sampler_handle(original.get_sampler_handle())
    one(first)
    one(first)
    one(tinker.SamplingClient.from_sampler_handle(original.get_sampler_handle()))
    finish(service)


def sampler_missing():
    service = tinker.ServiceClient()
    expect_error(lambda: service.create_sampling_client(model_path="tinker://run/sampler_weights/none"))
    expect_error(lambda: service.create_sampling_client(model_path="/tmp/weights"))
    sampler(service)
    finish(service)
