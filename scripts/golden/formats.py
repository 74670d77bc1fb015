"""Makes tests/data/golden/quant/formats.json: weights and tokens as the scaled formats hold them, by numpy and torch.

Per row a checksum (FNV-1a over the fp32 bits of the decoded numbers, both zeros as zero). The formats are those of
src/quant/format.h; scales are fp32 divisions of the amax, int4's rounded to bf16. With least squares, each int4 group
takes the candidate scale with the least square error, added exactly with fractions; the first of equal ones.

    python scripts/golden/formats.py
"""

import json
import pathlib
from fractions import Fraction

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


def bf16(x):
    return F(torch.tensor(float(x)).bfloat16().float().item())


def scale_of(amax, kind):
    scale = (F(amax) / F({"fp8": 448, "int8": 127, "int4": 7}[kind])).astype(F)
    return bf16(scale) if kind == "int4" else scale


def least_squares(group):
    """Errors are exact; src/quant/int4_scale.h rounds weights to a grid of 2^18, so near ties may differ there."""
    amax = np.abs(group).max()
    candidates = [(scale_of(amax, "int4"), -7), (bf16(amax / F(8)), -8), (bf16(-amax / F(8)), -8)]
    if amax == 0:
        return np.zeros_like(group)

    def levels(scale, lowest, divide):
        ratios = (group / scale if divide else group * (F(1) / scale)).astype(F)
        return np.clip(np.rint(ratios), lowest, 7).astype(F)

    def error(candidate):
        return sum((Fraction(float(w)) - Fraction(float(v)) * Fraction(float(candidate[0]))) ** 2
                   for w, v in zip(group.ravel(), levels(*candidate, False).ravel()))

    best = min(candidates, key=error)  # the first of equal ones
    return levels(*best, True) * best[0]


def rounded(x, kind, height, width, rule=None):
    """x in blocks of height × width under one scale each."""
    out = np.zeros_like(x)
    for r in range(0, x.shape[0], height):
        for c in range(0, x.shape[1], width):
            block = x[r:r + height, c:c + width]
            scale = scale_of(np.abs(block).max(), kind)
            if rule:
                out[r:r + height, c:c + width] = rule(block)
            elif scale != 0:
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
    held = {
        "int8": (rounded(weights, "int8", 1, whole), token8),
        "fp8_e4m3 tensor": (rounded(weights, "fp8", whole, whole), tokenf),
        "fp8_e4m3 channel_token": (rounded(weights, "fp8", 1, whole), tokenf),
        "fp8_e4m3 block128": (rounded(weights, "fp8", 128, 128), tokenb),
    }
    searched = {}
    for group in (128, 64, 32):
        by_largest = rounded(weights, "int4", 1, group)
        name = "int4" if group == 128 else f"int4 group{group}"
        for activations, held_tokens in (("", bf16), (" int8", token8), (" fp8_e4m3", tokenf)):
            held[name + activations] = (by_largest, held_tokens)
        searched[name] = checksums(rounded(weights, "int4", 1, group, least_squares))
    OUT.write_text(json.dumps({
        "made_by": "scripts/golden/formats.py", "numpy": np.__version__, "torch": torch.__version__, "inputs": INPUTS,
        "weights": [int(v) for v in weights.view(np.uint32).ravel()],
        "tokens": [int(v) for v in tokens.view(np.uint32).ravel()],
        "formats": {name: {"weights": checksums(w), "tokens": checksums(t)} for name, (w, t) in held.items()},
        "least_squares": searched}) + "\n")


if __name__ == "__main__":
    main()
