"""Makes tests/data/golden/quant/formats.json: weights and tokens as the scaled formats hold them, by numpy and torch.

Per row a checksum (FNV-1a over the fp32 bits of the decoded numbers, both zeros as zero). The formats are those of
src/quant/format.h; scales are fp32 divisions of the amax, int4's rounded to bf16.

    python scripts/golden/formats.py
"""

import json
import pathlib

import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/quant/formats.json"
ROWS, INPUTS, TOKENS = 131, 150, 5  # ragged in every direction
F = np.float32


def to_codes(x, kind):
    """x: fp32, already divided by its scale."""
    if kind == "fp8":
        return torch.from_numpy(np.clip(x, -448, 448)).to(torch.float8_e4m3fn).float().numpy()
    most = {"int8": 127, "int4": 7}[kind]
    return np.clip(np.rint(x), -most, most).astype(F)


def scale_of(amax, kind):
    scale = (F(amax) / F({"fp8": 448, "int8": 127, "int4": 7}[kind])).astype(F)
    return torch.tensor(float(scale)).bfloat16().float().numpy() if kind == "int4" else scale


def rounded(x, kind, height, width):
    """x in blocks of height × width under one scale each."""
    out = np.zeros_like(x)
    for r in range(0, x.shape[0], height):
        for c in range(0, x.shape[1], width):
            block = x[r:r + height, c:c + width]
            scale = scale_of(np.abs(block).max(), kind)
            if scale != 0:
                out[r:r + height, c:c + width] = to_codes((block / scale).astype(F), kind) * scale
    return out


def checksums(x):
    sums = []
    for row in x:
        total = 2166136261
        for bits in np.where(row == 0, F(0), row).astype(F).view(np.uint32):
            total = ((total ^ int(bits)) * 16777619) & 0xffffffff
        sums.append(total)
    return sums


def main():
    rng = np.random.default_rng(20261121)
    weights = (rng.standard_normal((ROWS, INPUTS)) * 0.05).astype(F)
    weights[3] = 0
    weights[128:, 128:] = 0
    weights[7, 9] = 8.0
    weights[5] = np.arange(INPUTS, dtype=F) - 20  # ratios at ties
    tokens = rng.standard_normal((TOKENS, INPUTS)).astype(F)
    tokens[1] = 0
    tokens[2, 140] = 900
    tokens[3] *= F(1e-3)
    tokens[3, 0] = 1
    bf16 = torch.from_numpy(tokens).bfloat16().float().numpy()
    whole = 10 ** 6
    token8, tokenf, tokenb = (rounded(tokens, *how) for how in (("int8", 1, whole), ("fp8", 1, whole), ("fp8", 1, 128)))
    int4 = rounded(weights, "int4", 1, 128)
    held = {
        "int8": (rounded(weights, "int8", 1, whole), token8),
        "fp8_e4m3 tensor": (rounded(weights, "fp8", whole, whole), tokenf),
        "fp8_e4m3 channel_token": (rounded(weights, "fp8", 1, whole), tokenf),
        "fp8_e4m3 block128": (rounded(weights, "fp8", 128, 128), tokenb),
        "int4": (int4, bf16), "int4 int8": (int4, token8), "int4 fp8_e4m3": (int4, tokenf),
    }
    OUT.write_text(json.dumps({
        "made_by": "scripts/golden/formats.py", "numpy": np.__version__, "torch": torch.__version__, "inputs": INPUTS,
        "weights": [int(v) for v in weights.view(np.uint32).ravel()],
        "tokens": [int(v) for v in tokens.view(np.uint32).ravel()],
        "formats": {name: {"weights": checksums(w), "tokens": checksums(t)} for name, (w, t) in held.items()}}) + "\n")


if __name__ == "__main__":
    main()
