"""What `./dev bench server` asks of a server, by the official Python SDK: server_peer.py MODEL sft|rl|sample [OPTION...]

The server is that of TINKER_BASE_URL. Each line of the standard input is a turn: a step of training, an iteration of
reinforcement learning (engine_turns.cc does the same of both), or some sample calls, one after another. Prints what each
turn took as a JSON object on a line; what a client does once, such as its session, does not count.
"""

import argparse
import json
import sys
import time

import numpy
import tinker
from engine_tokens import PROMPT_TOKENS, tokens_of
from tinker import types

PROMPTS, SAMPLES, ANSWER = 4, 8, 16  # of an iteration
LEARNING_RATE = types.AdamParams(learning_rate=1e-4)


def tensor(values, dtype):
    return types.TensorData.from_numpy(numpy.array(values, dtype=dtype))


def datum(tokens, targets, **floats):
    inputs = {name: tensor(values, numpy.float32) for name, values in floats.items()}
    inputs["target_tokens"] = tensor(targets, numpy.int64)
    return types.Datum(model_input=types.ModelInput.from_ints(tokens), loss_fn_inputs=inputs)


class Training:
    def __init__(self, service, options):
        self.client = service.create_lora_training_client(base_model=options.model, rank=32, seed=1)
        self.options = options

    def update(self, data, loss):
        gradients = self.client.forward_backward(data, loss)
        step = self.client.optim_step(LEARNING_RATE)
        output = gradients.result()
        step.result()
        return output.metrics.get("loss:sum")  # other servers have no such metric


class Sft(Training):
    def __init__(self, service, options):
        super().__init__(service, options)
        self.data = []
        for i in range(options.sequences):
            tokens = tokens_of(i, options.length + 1, options.vocabulary)
            self.data.append(datum(tokens[:-1], tokens[1:], weights=[1.0] * options.length))

    def turn(self, _):
        return {"loss": self.update(self.data, "cross_entropy")}


class Rl(Training):
    def turn(self, number):
        sampler = self.client.save_weights_and_get_sampling_client()
        prompts = [tokens_of(4000 + i, PROMPT_TOKENS, self.options.vocabulary) for i in range(PROMPTS)]
        params = types.SamplingParams(max_tokens=ANSWER, seed=number, stop=[])
        groups = [
            sampler.sample(types.ModelInput.from_ints(prompt), num_samples=SAMPLES, sampling_params=params)
            for prompt in prompts
        ]
        data = []
        for prompt, group in zip(prompts, groups):
            for answer in group.result().sequences:
                text, rest = [*prompt, *answer.tokens], len(prompt) - 1
                logprobs = [0.0] * rest + list(answer.logprobs)
                advantages = [0.0] * rest + [1.0 if len(data) % 2 == 0 else -1.0] * len(answer.tokens)
                data.append(datum(text[:-1], text[1:], logprobs=logprobs, advantages=advantages))
        return {"loss": self.update(data, "importance_sampling")}


class Samples:
    def __init__(self, service, options):
        self.client = service.create_sampling_client(base_model=options.model)
        self.options = options
        self.random = numpy.random.default_rng(1)

    def turn(self, _):
        params = types.SamplingParams(max_tokens=self.options.max_tokens)
        for _ in range(self.options.calls):
            tokens = self.random.integers(self.options.vocabulary, size=self.options.prompt_tokens).tolist()
            prompt = types.ModelInput.from_ints(tokens)
            self.client.sample(prompt, num_samples=1, sampling_params=params).result()
        return {"calls": self.options.calls}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("work", choices=["sft", "rl", "sample"])
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--max-tokens", type=int, default=1)
    options = parser.parse_args()
    work = {"sft": Sft, "rl": Rl, "sample": Samples}[options.work](tinker.ServiceClient(), options)
    for number, _ in enumerate(sys.stdin):
        start, cpu = time.perf_counter(), time.process_time()
        done = work.turn(number)
        taken = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        print(json.dumps({"what": "turn", "peer": f"tinker {tinker.__version__} (Python)", **taken, **done}), flush=True)


if __name__ == "__main__":
    main()
