"""The work of `tinker bench` done by the official Python SDK, with its default transport.

    client_peer.py URL sample IN_FLIGHT CALLS
    client_peer.py URL train DATA TOKENS STEPS

SSL_CERT_FILE names the authority to trust. Prints calls, seconds, CPU seconds of this process and its largest memory
as JSON; what a client does once (its session, its first connections) does not count.
"""

import asyncio
import json
import random
import resource
import sys
import time

import numpy
import tinker
from tinker import types

MODEL = "load/model"
PROMPT_TOKENS = 128
VOCABULARY = 1000


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024


class Samples:
    def __init__(self, service, in_flight):
        self.client = service.create_sampling_client(base_model=MODEL)
        self.in_flight = int(in_flight)

    async def run(self, calls):
        left = calls

        async def worker():
            nonlocal left
            while left > 0:
                left -= 1
                tokens = random.choices(range(VOCABULARY), k=PROMPT_TOKENS)
                await self.client.sample_async(
                    prompt=types.ModelInput.from_ints(tokens),
                    num_samples=1,
                    sampling_params=types.SamplingParams(max_tokens=64),
                )

        await asyncio.gather(*(worker() for _ in range(self.in_flight)))

    async def warm_up(self):
        await self.run(self.in_flight)


class Steps:
    def __init__(self, service, data, tokens):
        self.client = service.create_lora_training_client(base_model=MODEL, rank=32)
        self.batch = [self.make_datum(int(tokens)) for _ in range(int(data))]

    @staticmethod
    def make_datum(tokens):
        inputs = random.choices(range(VOCABULARY), k=tokens)
        targets = numpy.array(inputs[1:] + [0], dtype=numpy.int64)
        return types.Datum(
            model_input=types.ModelInput.from_ints(inputs),
            loss_fn_inputs={
                "target_tokens": types.TensorData.from_numpy(targets),
                "weights": types.TensorData.from_numpy(numpy.ones(tokens, dtype=numpy.float32)),
            },
        )

    async def run(self, steps):
        for _ in range(steps):
            gradients = await self.client.forward_backward_async(self.batch, "cross_entropy")
            update = await self.client.optim_step_async(types.AdamParams(learning_rate=1e-4))
            await gradients.result_async()
            await update.result_async()

    async def warm_up(self):
        await self.run(1)


async def measure(work, calls):
    await work.warm_up()
    start, cpu = time.perf_counter(), cpu_seconds()
    await work.run(calls)
    return {
        "peer": f"tinker {tinker.__version__} (Python)",
        "calls": calls,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": cpu_seconds() - cpu,
        "mib": peak_mib(),
    }


def main(url, kind, *numbers):
    service = tinker.ServiceClient(base_url=url, api_key="tml-benchmark")
    work = (Samples if kind == "sample" else Steps)(service, *numbers[:-1])
    print(json.dumps(asyncio.run(measure(work, int(numbers[-1])))))


if __name__ == "__main__":
    main(*sys.argv[1:])
