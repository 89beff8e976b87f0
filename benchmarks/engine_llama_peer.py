"""The sampling of engine_bench done by llama.cpp, as its llama-batched-bench does it: no token is drawn, only computed.

    engine_llama_peer.py convert FOLDER FILE    a Hugging Face folder as GGUF: matrices in BF16, vectors in F32
    engine_llama_peer.py measure FILE --what prefill,decode
"""

import argparse
import json
import pathlib
import struct
import time

import gguf
import numpy

from engine_tokens import (
    DECODE_PROMPT,
    NEW_TOKENS,
    PREFILL_PROMPT,
    PREFILL_TOKENS,
    PROMPT_TOKENS,
    batches_of,
    report,
    tokens_of,
)

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    stem = name.removesuffix(".weight")
    if stem in NAMES:
        return NAMES[stem] + ".weight"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{LAYER_NAMES[part]}.weight"


def bf16_tensors(file):
    """(name, array of 16-bit integers) of a safetensors file."""
    data = numpy.memmap(file, dtype=numpy.uint8, mode="r")
    size = struct.unpack("<Q", data[:8].tobytes())[0]
    for name, tensor in json.loads(data[8 : 8 + size].tobytes()).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            yield name, data[begin:end].view(numpy.uint16).reshape(tensor["shape"])


def pairs_of_rows(matrix, heads):
    """llama.cpp turns neighbours where transformers turns rows half a head apart."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def convert(folder, file):
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] != "llama":
        raise ValueError(f"cannot convert a model of type {config['model_type']}: expected llama")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("none")
    for name, values in bf16_tensors(folder / "model.safetensors"):
        if values.ndim == 1:
            floats = (values.astype(numpy.uint32) << 16).view(numpy.float32)
            writer.add_tensor(gguf_name(name), floats)
            continue
        if "q_proj" in name or "k_proj" in name:
            values = pairs_of_rows(values, heads if "q_proj" in name else kv_heads)
        as_bytes = numpy.ascontiguousarray(values).view(numpy.uint8)
        writer.add_tensor(gguf_name(name), as_bytes, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Context:
    """Room for some sequences of a model, and batches of tokens for them."""

    def __init__(self, api, model, threads, sequences, length):
        self.api = api
        options = api.llama_context_default_params()
        options.n_ctx = sequences * length
        options.n_batch = max(PREFILL_TOKENS, sequences * PROMPT_TOKENS)
        options.n_seq_max = sequences
        options.n_threads = options.n_threads_batch = threads
        self.context = api.llama_init_from_model(model, options)
        if not self.context:
            raise RuntimeError("llama.cpp made no context")
        self.batch = api.llama_batch_init(options.n_batch, 0, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.api.llama_batch_free(self.batch)
        self.api.llama_free(self.context)

    def clear(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), False)

    def compute(self, tokens):
        """Of (sequence, position, token, whether its logits are wanted)."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, (sequence, position, token, is_wanted) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, is_wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        self.api.llama_synchronize(self.context)


def measure_prefill(api, model, vocabulary, arguments):
    best = float("inf")
    with Context(api, model, arguments.threads, 1, PREFILL_TOKENS) as context:
        for i in range(arguments.repetitions):
            tokens = tokens_of(PREFILL_PROMPT + i, PREFILL_TOKENS, vocabulary)
            rows = [(0, at, token, at + 1 == PREFILL_TOKENS) for at, token in enumerate(tokens)]
            context.clear()
            start = time.perf_counter()
            context.compute(rows)
            best = min(best, time.perf_counter() - start)
    report("prefill", tokens=PREFILL_TOKENS, seconds=best)


def measure_decode(api, model, vocabulary, arguments):
    length = PROMPT_TOKENS + NEW_TOKENS
    for batch in arguments.batches:
        sequences = [tokens_of(DECODE_PROMPT + i, length, vocabulary) for i in range(batch)]
        best = float("inf")
        with Context(api, model, arguments.threads, batch, length) as context:
            for _ in range(arguments.repetitions):
                context.clear()
                context.compute(
                    [
                        (i, at, sequence[at], at + 1 == PROMPT_TOKENS)
                        for i, sequence in enumerate(sequences)
                        for at in range(PROMPT_TOKENS)
                    ]
                )
                steps = [
                    [(i, at, sequence[at], True) for i, sequence in enumerate(sequences)]
                    for at in range(PROMPT_TOKENS, length)
                ]
                start = time.perf_counter()
                for step in steps:
                    context.compute(step)
                best = min(best, time.perf_counter() - start)
        report("decode", batch=batch, tokens=batch * NEW_TOKENS, seconds=best)


def measure(arguments):
    import llama_cpp as api

    silent = api.llama_log_callback(lambda level, text, data: None)
    api.llama_log_set(silent, None)
    api.llama_backend_init()
    model = api.llama_model_load_from_file(str(arguments.file).encode(), api.llama_model_default_params())
    if not model:
        raise RuntimeError(f"llama.cpp cannot load {arguments.file}")
    vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
    report("peer", name=f"llama.cpp BF16 ({api.__version__})")
    for what in arguments.what.split(","):
        {"prefill": measure_prefill, "decode": measure_decode}[what](api, model, vocabulary, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("convert")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("file", type=pathlib.Path)
    command = commands.add_parser("measure")
    command.add_argument("file", type=pathlib.Path)
    command.add_argument("--what", required=True)
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--repetitions", type=int, default=3)
    command.add_argument("--batches", type=batches_of, default=[1, 8, 64])
    arguments = parser.parse_args()
    if arguments.command == "convert":
        convert(arguments.folder, arguments.file)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
