"""Writes a tiny random Qwen3 model whose tokens are bytes: make_model.py FOLDER. Runs in the server's own environment."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

folder = sys.argv[1]

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens(["<|end|>"])
PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>").save_pretrained(folder)

torch.manual_seed(1)
config = Qwen3Config(
    vocab_size=264,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=512,
    eos_token_id=256,
    pad_token_id=256,
    tie_word_embeddings=False,
)
Qwen3ForCausalLM(config).to(torch.float32).save_pretrained(folder)
