"""How sessions start and end."""

from .common import *


def session_start_and_end():
    service = tinker.ServiceClient(
        user_metadata={"team": "ml", "run": "7"},
        project_id="project-1",
        display_name="nightly run",
        default_headers_overrides={"X-Team": "ml"},
    )
    trainer(service)
    finish(service)


def session_defaults():
    service = tinker.ServiceClient()
    sampler(service)
    service.close("errored", "loss is not a number").result()
    service.close("success").result()


def session_environment():
    service = tinker.ServiceClient()
    sampler(service)
    service.close("interrupted").result()


def session_with_block():
    with tinker.ServiceClient() as service:
        sampler(service)


def session_with_block_error():
    def fail():
        with tinker.ServiceClient() as service:
            sampler(service)
            raise ValueError("stopped")

    expect_error(fail)


def session_never_begun():
    tinker.ServiceClient().close("success").result()
    service = tinker.ServiceClient()
    service.get_server_capabilities()
    finish(service)


def session_tokens():
    service = tinker.ServiceClient()
    trainer(service)
    rest = service.create_rest_client()
    rest.whoami().result()
    finish(service)


def session_start_up_retries():
    service = tinker.ServiceClient()
    sampler(service)
    finish(service)


def session_refused():
    service = tinker.ServiceClient()
    expect_error(lambda: trainer(service))


def session_finish_retries():
    service = tinker.ServiceClient()
    sampler(service)
    finish(service)


def session_finish_refused():
    service = tinker.ServiceClient()
    sampler(service)
    expect_error(lambda: finish(service))


def session_without_telemetry():
    service = tinker.ServiceClient()
    training = trainer(service)
    expect_error(lambda: training.forward_backward(data(1), "cispo").result())
    finish(service)
