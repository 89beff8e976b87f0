"""The work of http_bench.cc done by the official Python SDK, with its default transport.

    http_peer.py URL small|poll IN_FLIGHT REQUESTS

SSL_CERT_FILE names the authority to trust. Prints requests, seconds, CPU seconds of this process and its largest
memory as JSON.
"""

import asyncio
import json
import resource
import sys
import time

import tinker
from tinker import types
from tinker._client import AsyncTinker
from tinker.proto.response_conv import deserialize_sample_response
from tinker.types.future_retrieve_request import FutureRetrieveRequest
from tinker.types.sample_request import SampleRequest

REQUESTS_PER_CLIENT = 50  # as its own pools do


async def submit_sample(client):
    request = SampleRequest(
        prompt=types.ModelInput.from_ints(list(range(1, 17))),
        sampling_params=types.SamplingParams(max_tokens=64, temperature=0.7),
        sampling_session_id="session:sample:0",
        seq_id=0,
        prompt_logprobs=False,
    )
    await client.sampling.asample(request=request, max_retries=0)


async def poll_result(client):
    response = await client.futures.with_raw_response.retrieve(
        request=FutureRetrieveRequest(request_id="r-1-1", allow_metadata_only=True),
        timeout=45,
        extra_headers={
            "X-Tinker-Request-Iteration": "0",
            "X-Tinker-Request-Type": "Sample",
            "Accept": "application/x-protobuf",
            "X-Tinker-Create-Promise-Roundtrip-Time": "0.01",
        },
        max_retries=0,
    )
    deserialize_sample_response(response.http_response.content)


async def run(clients, work, in_flight, requests):
    left = requests

    async def worker(client):
        nonlocal left
        while left > 0:
            left -= 1
            try:
                await work(client)
            except tinker.APIConnectionError:  # on a busy machine; its outer loops ask again, too
                left += 1

    await asyncio.gather(*(worker(clients[i // REQUESTS_PER_CLIENT]) for i in range(in_flight)))


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def main(url, mode, in_flight, requests):
    work = poll_result if mode == "poll" else submit_sample
    count = (in_flight + REQUESTS_PER_CLIENT - 1) // REQUESTS_PER_CLIENT
    clients = [AsyncTinker(api_key="tml-benchmark", base_url=url) for _ in range(count)]
    await run(clients, work, in_flight, in_flight)  # opens the connections
    start, cpu = time.perf_counter(), cpu_seconds()
    await run(clients, work, in_flight, requests)
    result = {
        "peer": f"tinker {tinker.__version__} (Python)",
        "requests": requests,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": cpu_seconds() - cpu,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
