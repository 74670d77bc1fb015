"""Makes tests/data/golden/fp8_backward.safetensors: dX and dW of a linear layer whose products are of e4m3 codes.

The definition is written anew here, in numpy, from src/learner/forward/quantized.h's words: weights in blocks of 128 outputs
of a tensor x 128 inputs; dY for dX in runs of 128 outputs of a tensor; for dW both dY and the decoded inputs in runs
of 128 tokens. A scale is amax / 448 in fp32, a code its ratio rounded to three bits behind the first, half to even.
Sums of the decoded numbers are fp64, here as if exact: what is left to the test's bound is our own fp32 sums. Two
tensors and no size that 128 divides; a block of weights, a token and a run of a column are zero, and gradients spread
over 2^20.

    python scripts/golden/fp8_backward.py
"""

import pathlib

import numpy as np
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/fp8_backward.safetensors"
TOKENS, INPUTS, TENSORS = 133, 130, (129, 3)
F = np.float32


def e4m3(x):
    """fp64 of the e4m3 numbers nearest to fp32 ones within 448, ties to even."""
    x = np.clip(x.astype(np.float64), -448, 448)
    exponent = np.frexp(x)[1] - 1  # x = f * 2^exponent, 1 <= f < 2
    step = np.ldexp(1.0, np.maximum(exponent, -6) - 3)
    return np.rint(x / step) * step


def encoded(x, height, width):
    """fp64 values of codes under one scale for each block of height x width."""
    out = np.zeros(x.shape)
    for r in range(0, x.shape[0], height):
        for c in range(0, x.shape[1], width):
            block = x[r:r + height, c:c + width]
            scale = F(np.abs(block).max()) / F(448)
            if scale != 0:
                out[r:r + height, c:c + width] = e4m3((block / scale).astype(F)) * np.float64(scale)
    return out


def main():
    rng = np.random.default_rng(20261123)
    starts = np.concatenate([[0], np.cumsum(TENSORS)])
    parts = [slice(a, b) for a, b in zip(starts[:-1], starts[1:])]
    x = rng.standard_normal((TOKENS, INPUTS)).astype(F)
    w = (rng.standard_normal((starts[-1], INPUTS)) * 0.05).astype(F)
    dy = (rng.standard_normal((TOKENS, starts[-1])) * np.exp2(rng.integers(-30, -10, (TOKENS, 1)))).astype(F)
    w[:128, 128:] = 0
    w[starts[1]:] *= 40  # a scale of its own
    dy[5] = 0
    dy[:128, 7] = 0
    x_hat = encoded(x, 1, 128).astype(F)
    w_hat = np.concatenate([encoded(w[part], 128, 128) for part in parts])
    dx = np.concatenate([encoded(dy[:, part], 1, 128) for part in parts], 1) @ w_hat
    dw = encoded(dy.T, 1, 128) @ encoded(x_hat.T, 1, 128).T
    save_file({"x": x, "w": w, "dy": dy, "dx": dx.astype(F), "dw": dw.astype(F)}, OUT,
              {"made_by": "scripts/golden/fp8_backward.py", "numpy": np.__version__,
               "tensors": " ".join(map(str, TENSORS))})


if __name__ == "__main__":
    main()
