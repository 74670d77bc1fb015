"""Makes tests/data/golden/quant/rotation.json: rows rotated by blocks of 32, 64 and 128, and what int8 then makes of them, by numpy.

Per block and row a checksum (FNV-1a over fp32 bits, both zeros as zero): of the rotated rows, and of weights and tokens
as int8 holds them dequantized. Products of those in fp64. The butterflies are those of src/quant/rotation.h; the same
rows times a Hadamard matrix in fp64 must agree.

    python scripts/golden/rotation.py
"""

import json
import pathlib

import numpy as np

from formats import checksums

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/quant/rotation.json"
OUTPUTS, INPUTS, TOKENS = 9, 384, 4
F = np.float32


def rotated(x, block):
    """Blocks of every row by butterflies in fp32, neighbors first."""
    y = x.reshape(-1, block).copy()
    step = 1
    while step < block:
        pairs = y.reshape(-1, block // (2 * step), 2, step)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(-1, block)
        step *= 2
    return (y * F(1 / np.sqrt(block))).astype(F).reshape(x.shape)


def hadamard(block):
    h = np.ones((1, 1))
    while len(h) < block:
        h = np.block([[h, h], [h, -h]])
    return h / np.sqrt(block)


def int8(x):
    scale = (np.abs(x).max(1, keepdims=True) / F(127)).astype(F)
    divisor = np.where(scale == 0, F(1), scale)
    return (np.clip(np.rint((x / divisor).astype(F)), -127, 127).astype(F) * scale).astype(F)


def main():
    rng = np.random.default_rng(20261126)
    weights = (rng.standard_normal((OUTPUTS, INPUTS)) * 0.05).astype(F)
    weights[3] = 0
    tokens = rng.standard_normal((TOKENS, INPUTS)).astype(F)
    tokens[1, [7, 200]] = 300, -900  # outliers, as real models have them
    tokens[2] = 1  # one number of a block takes all
    blocks = {}
    for block in (32, 64, 128):
        w, x = rotated(weights, block), rotated(tokens, block)
        exact = (tokens.astype(np.float64).reshape(-1, block) @ hadamard(block)).reshape(tokens.shape)
        assert np.abs(x - exact).max() < 1e-6 * np.abs(exact).max()
        w8, x8 = int8(w), int8(x)
        blocks[str(block)] = {"weights": checksums(w), "tokens": checksums(x), "int8_weights": checksums(w8),
                              "int8_tokens": checksums(x8), "products": (x8.astype(np.float64) @ w8.T).ravel().tolist()}
    OUT.write_text(json.dumps({
        "made_by": "scripts/golden/rotation.py", "numpy": np.__version__, "inputs": INPUTS,
        "weights": [int(v) for v in weights.view(np.uint32).ravel()],
        "tokens": [int(v) for v in tokens.view(np.uint32).ravel()], "blocks": blocks}) + "\n")


if __name__ == "__main__":
    main()
