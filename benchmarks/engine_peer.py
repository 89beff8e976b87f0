"""The work of engine_bench done by PyTorch, transformers and peft: engine_peer.py MODEL --what lora_step,prefill,decode.

In their best configuration here: attention fused, no checkpointing, adapters in f32, as peft has them, or in the precision
of the model, whatever is faster on this machine.
"""

import argparse
import os
import time

from engine_tokens import (
    DECODE_PROMPT,
    NEW_TOKENS,
    PREFILL_PROMPT,
    PREFILL_TOKENS,
    PROMPT_TOKENS,
    RANK,
    batches_of,
    peak_megabytes,
    report,
    tokens_of,
)

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # read when torch is imported
import peft
import torch
import transformers

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PROBE = 64  # tokens that show what is faster


def best_of(repetitions, work):
    best = float("inf")
    for i in range(repetitions):
        start = time.perf_counter()
        work(i)
        best = min(best, time.perf_counter() - start)
    return best


def choose_adapter_precision(model, parameters, compute_gradients):
    """Theirs or the model's: on machines without instructions for bf16 small products in it are slow."""
    seconds = {}
    for dtype in {torch.float32, model.dtype}:
        for parameter in parameters:
            parameter.data = parameter.data.to(dtype)
            parameter.grad = None
        seconds[dtype] = best_of(2, lambda _: compute_gradients())
    dtype = min(seconds, key=seconds.get)
    for parameter in parameters:
        parameter.data = parameter.data.to(dtype)
        parameter.grad = None


def lora_step(model, arguments):
    vocabulary = model.config.vocab_size
    data = [tokens_of(i, arguments.length + 1, vocabulary) for i in range(arguments.sequences)]
    inputs, targets = torch.tensor(data)[:, :-1], torch.tensor(data)[:, 1:]
    config = peft.LoraConfig(r=RANK, lora_alpha=32, lora_dropout=0.0, target_modules=PROJECTIONS, task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def compute_gradients(inputs, targets):
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().view(-1, vocabulary), targets.reshape(-1))
        loss.backward()
        return loss.item()

    choose_adapter_precision(model, parameters, lambda: compute_gradients(inputs[:1, :PROBE], targets[:1, :PROBE]))
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    losses = []

    def step(_):
        losses.append(compute_gradients(inputs, targets))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = best_of(arguments.repetitions, step)
    report("lora_step", tokens=inputs.numel(), seconds=seconds, first_loss=losses[0])
    report("memory", megabytes=peak_megabytes())


def generate(model, prompts, new_tokens):
    """When each of the new tokens was there, from the beginning."""
    times = []

    def note_time(input_ids, scores, **_):
        times.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)

    start = time.perf_counter()
    model.generate(
        torch.tensor(prompts),
        attention_mask=torch.ones(len(prompts), len(prompts[0]), dtype=torch.long),
        max_new_tokens=new_tokens,
        min_new_tokens=new_tokens,
        do_sample=False,
        stopping_criteria=transformers.StoppingCriteriaList([note_time]),
    )
    return [at - start for at in times]


def prefill(model, arguments):
    def once(i):
        prompt = tokens_of(PREFILL_PROMPT + i, PREFILL_TOKENS, model.config.vocab_size)
        return generate(model, [prompt], 1)[0]

    report("prefill", tokens=PREFILL_TOKENS, seconds=min(once(i) for i in range(arguments.repetitions)))


def decode(model, arguments):
    """From the first new token to the last, so without the prompts."""
    for batch in arguments.batches:
        prompts = [tokens_of(DECODE_PROMPT + i, PROMPT_TOKENS, model.config.vocab_size) for i in range(batch)]
        times = [generate(model, prompts, NEW_TOKENS + 1) for _ in range(arguments.repetitions)]
        report("decode", batch=batch, tokens=batch * NEW_TOKENS, seconds=min(at[-1] - at[0] for at in times))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--what", required=True)
    parser.add_argument("--precision", choices=("f32", "bf16"), default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--batches", type=batches_of, default=[1, 8, 64])
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[arguments.precision]
    model = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype)
    model.generation_config = transformers.GenerationConfig(pad_token_id=0)  # nothing ends early
    report("peer", name=f"torch {torch.__version__.partition('+')[0]}")
    for what in arguments.what.split(","):
        with torch.set_grad_enabled(what == "lora_step"):
            {"lora_step": lora_step, "prefill": prefill, "decode": decode}[what](model, arguments)


if __name__ == "__main__":
    main()
