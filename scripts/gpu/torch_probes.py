#!/usr/bin/env python3
"""What torch's libraries can multiply on this GPU, each result checked against fp64 on the CPU. For scripts/gpu/check --part probes.

    python3 scripts/gpu/torch_probes.py grouped|scales

grouped: experts of Qwen3-30B-A3B's shape (128 of 768, 8 a token) by _grouped_mm in bf16 and _scaled_grouped_mm in e4m3. scales: e4m3 GEMMs
of the learner by cuBLASLt, both operands with a scale for each 128 inputs, or one of them with a scale for each 128 x 128; the products
of a weight gradient take the first. Each measurement prints a JSON object when it ends; an error takes the place of a figure.
"""
import argparse
import json

import torch_peer
from torch_peer import best_s, say

EXPERTS, WIDTH, INNER, CHOSEN = 128, 2048, 768, 8
TOKENS = (64, 512, 16384)
MOST_ERROR = 2 ** -7  # of the sum of the products' sizes: roundings of a bf16 result and of e4m3's narrow sums
# Rows, outputs, inputs of 1.5B's and 8B's learners: forward and backward of gate and up, and the weights' gradient.
LEARNER = {"1.5B gate_up": (8192, 17920, 1536), "1.5B gradient": (17920, 1536, 8192), "8B gate_up": (8192, 24576, 4096), "8B gradient": (24576, 4096, 8192)}


def checked(y, x, w, places=64):
    """Returns the largest error of some results [row, output] of x · wᵀ, relative to the sum of the products' sizes."""
    rows = torch.arange(places, device="cuda") * 37 % y.shape[0]
    outputs = torch.arange(places, device="cuda") * 1009 % y.shape[1]
    products = x[rows].double().cpu() * w[outputs].double().cpu()
    error = ((y[rows, outputs].double().cpu() - products.sum(1)).abs() / products.abs().sum(1)).max().item()
    assert error <= MOST_ERROR, f"the CPU's reference is {error:.3g} away"
    return error


def figures(seconds, operations, error):
    return {"us": seconds * 1e6, "tflops": operations / seconds * 1e-12, "error": error}


def by_rows(values):
    """Returns e4m3 values with a scale for each row, the scales, and the values dequantized."""
    scale = values.abs().amax(1, keepdim=True).float() / 448
    quantized = (values.float() / scale).to(torch.float8_e4m3fn)
    return quantized, scale, quantized.float() * scale


def grouped(tokens, kind):
    """Times the gate and up products of all experts, whose rows are drawn at random."""
    counts = torch.bincount(torch.randint(EXPERTS, (tokens * CHOSEN,), generator=torch.Generator().manual_seed(1)), minlength=EXPERTS)
    if kind == "e4m3":  # its groups begin at multiples of 16
        counts = (counts + 15) // 16 * 16
    ends = counts.cumsum(0).to(torch.int32).cuda()
    total = int(ends[-1])
    x = torch.randn(total, WIDTH, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(EXPERTS, 2 * INNER, WIDTH, device="cuda", dtype=torch.bfloat16) * 0.02
    if kind == "bf16":
        def call():
            return torch._grouped_mm(x, w.transpose(1, 2), offs=ends)
        x_is, w_is = x, w
    else:
        x_fp8, x_scale, x_is = by_rows(x)
        w_fp8, w_scale, w_is = by_rows(w.reshape(-1, WIDTH))
        w_fp8, w_scale, w_is = w_fp8.view_as(w), w_scale.view(EXPERTS, -1), w_is.view_as(w)

        def call():
            return torch._scaled_grouped_mm(x_fp8, w_fp8.transpose(1, 2), x_scale.view(-1), w_scale, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=False)
    y, last = call(), EXPERTS - 1
    begin = int(ends[last - 1])
    error = checked(y[begin:], x_is[begin:], w_is[last]) if begin < total else None
    return figures(best_s(call), 2 * total * WIDTH * 2 * INNER, error)


def of_blocks(values, rows):
    """Returns e4m3 values with a scale for each 128 inputs of `rows` rows (1 or 128), the scales, and the values dequantized."""
    out, inputs = values.shape
    blocks = values.float().view(out // rows, rows, inputs // 128, 128)
    scale = blocks.abs().amax((1, 3), keepdim=True) / 448
    quantized = (blocks / scale).to(torch.float8_e4m3fn)
    return quantized.view(out, inputs), scale.view(out // rows, inputs // 128), (quantized.float() * scale).view(out, inputs)


def scaled(rows, outputs, inputs, weight_rows, result):
    x, x_scale, x_is = of_blocks(torch.randn(rows, inputs, device="cuda"), 1)
    w, w_scale, w_is = of_blocks(torch.randn(outputs, inputs, device="cuda") * 0.02, weight_rows)
    x_scale = x_scale.t().contiguous().t()  # cuBLASLt wants the scales of a chunk side by side
    w_scale = w_scale.t().contiguous() if weight_rows == 1 else w_scale.contiguous().t()

    def call():
        return torch._scaled_mm(x, w.t(), x_scale, w_scale, out_dtype=result, use_fast_accum=False)
    y = call()
    return figures(best_s(call), 2 * rows * outputs * inputs, checked(y, x_is, w_is))


GROUPS = {
    "grouped": lambda: [say(f"{kind} {tokens} tokens", lambda: grouped(tokens, kind)) for tokens in TOKENS for kind in ("bf16", "e4m3")],
    "scales": lambda: [say(f"{name}, 1x128 by {rows}x128, {str(result)[6:]}", lambda: scaled(*shape, rows, result))
                       for name, shape in LEARNER.items() for rows in (1, 128) for result in (torch.bfloat16, torch.float32)]}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=GROUPS)
    args = parser.parse_args()
    import torch
    torch_peer.torch = torch
    print(json.dumps({"torch": torch.__version__}), flush=True)
    GROUPS[args.group]()
