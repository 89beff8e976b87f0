#!/usr/bin/env python3
"""Writes tests/golden/ggml_blocks.txt: blocks of ggml's tensor types, with the values its own package makes of them.

    python3 tests/golden/make_ggml_golden.py

Needs gguf and numpy. A line is a type, blocks of random bits in hexadecimal, and their values as the bytes of f32. Halves are finite:
large, small, negative, zero and subnormal ones.
"""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

# Where a block has halves; blocks of one value are a half, or none.
HALVES = {Type.F16: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q8_0: [0], Type.Q4_K: [0, 2], Type.Q6_K: [208]}
BLOCKS = 4


def blocks_of(kind, rng):
    values, size = gguf.GGML_QUANT_SIZES[kind]
    count = BLOCKS if values > 1 else 16
    if kind == Type.F32:
        return rng.standard_normal(count).astype(np.float32).view(np.uint8)
    if kind == Type.BF16:
        return rng.standard_normal(count).astype(np.float32).view(np.uint8).reshape(-1, 4)[:, 2:].reshape(-1).copy()
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = (rng.standard_normal(count) * 10.0 ** rng.integers(-8, 4, count)).astype(np.float16)
        halves[0] = [0.0, 6e-8, 3e-5][at % 3]
        blocks[:, at:at + 2] = halves.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(-1)


def main():
    rng = np.random.default_rng(1)
    lines = [f"# Made by make_ggml_golden.py with numpy {np.__version__}."]
    for kind in [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q8_0, Type.Q4_K, Type.Q6_K]:
        blocks = blocks_of(kind, rng)
        values = gguf.quants.dequantize(blocks, kind)
        assert np.isfinite(values).all()
        lines.append(f"{kind.name} {blocks.tobytes().hex()} {values.astype('<f4').tobytes().hex()}")
    Path(__file__).with_name("ggml_blocks.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
