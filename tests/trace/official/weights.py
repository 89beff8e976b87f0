"""Checkpoints: saving, loading, and clients made from them."""

from .common import *

TOKEN = "tml-owner-key"


def save_and_load():
    service = tinker.ServiceClient()
    training = trainer(service)
    path = training.save_state("first").result().path
    training.save_state("first", ttl_seconds=7200, overwrite=True, user_metadata={"step": "1"}).result()
    training.load_state(path).result()
    training.load_state_with_optimizer(path).result()
    training.load_state(path, weights_access_token=TOKEN).result()
    training.load_state_with_optimizer(path, weights_access_token=TOKEN).result()
    finish(service)


def save_for_samplers():
    service = tinker.ServiceClient()
    training = trainer(service)
    path = training.save_weights_for_sampler("eval").result().path
    training.save_weights_for_sampler("eval-2", ttl_seconds=3600, user_metadata={"best": "yes"}).result()
    training.create_sampling_client(path).sample(text(65), 1, short()).result()
    service.create_sampling_client(model_path=path, base_model=BASE_MODEL)
    service.create_sampling_client(model_path=path)
    finish(service)


def save_and_sample():
    service = tinker.ServiceClient()
    training = trainer(service)
    sampler(service)
    first = training.save_weights_and_get_sampling_client()
    first.sample(text(65), 1, short()).result()
    second = training.save_weights_and_get_sampling_client(record_stability_info=True)
    second.sample(text(65), 1, short()).result()
    finish(service)


def save_external():
    service = tinker.ServiceClient()
    training = trainer(service)
    path = training.save_weights_external("export").result().path
    recipients = ["age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq", "ssh-ed25519 AAAA me"]
    training.save_weights_external("sealed", ttl_seconds=86400, age_encryption_recipients=recipients).result()
    service.create_rest_client().get_external_weights_urls(path).result()
    finish(service)


def save_one():
    service = tinker.ServiceClient()
    training = trainer(service)
    training.save_state("first").result()
    finish(service)


save_conflict = save_retries = save_lost_answer = save_one


def save_ephemeral_retries():
    service = tinker.ServiceClient()
    training = trainer(service)
    training.save_weights_and_get_sampling_client().sample(text(65), 1, short()).result()
    sampler(service).sample(text(65), 1, short()).result()
    finish(service)


def save_failed():
    service = tinker.ServiceClient()
    training = trainer(service)
    training.save_state("first").result()
    expect_error(lambda: training.save_state("first").result())
    expect_error(lambda: training.load_state("tinker://session-1:train:0/weights/none").result())
    finish(service)


def checkpoint(service):
    return trainer(service, rank=8, train_mlp=False).save_state("first").result().path


def from_state():
    service = tinker.ServiceClient()
    path = checkpoint(service)
    training = service.create_training_client_from_state(path)
    training.forward_backward(data(1), "cross_entropy").result()
    service.create_training_client_from_state(
        path,
        base_model="tiny/other",
        user_metadata={"from": "first"},
        optimizer=types.DimuonOptimizerConfig(),
    )
    finish(service)


def from_state_with_optimizer():
    service = tinker.ServiceClient()
    path = checkpoint(service)
    training = service.create_training_client_from_state_with_optimizer(path)
    training.optim_step(types.AdamParams()).result()
    service.create_training_client_from_state_with_optimizer(
        path, base_model="tiny/other", user_metadata={"from": "first"}
    )
    finish(service)


def from_state_of_others():
    service = tinker.ServiceClient()
    path = checkpoint(service)
    service.create_training_client_from_state(path, weights_access_token=TOKEN)
    service.create_training_client_from_state_with_optimizer(path, weights_access_token=TOKEN)
    finish(service)


def from_state_of_others_by_token():
    from_state_of_others()


def from_state_by_load():
    service = tinker.ServiceClient()
    path = checkpoint(service)
    training = service.create_training_client_from_state(path)
    training.forward_backward(data(1), "cross_entropy").result()
    service.create_training_client_from_state(
        path,
        base_model="tiny/other",
        user_metadata={"from": "first"},
        weights_access_token=TOKEN,
        optimizer=types.DimuonOptimizerConfig(),
    )
    service.create_training_client_from_state_with_optimizer(path)
    service.create_training_client_from_state_with_optimizer(
        path, base_model="tiny/other", user_metadata={"from": "first"}, weights_access_token=TOKEN
    )
    finish(service)


def from_state_missing():
    service = tinker.ServiceClient()
    trainer(service)
    expect_error(lambda: service.create_training_client_from_state("tinker://run/weights/none"))
    finish(service)
