"""Makes tests/data/golden/ops/: norm, SwiGLU, rotary embedding and causal attention by torch and transformers.

Inputs are fp32 numbers, all arithmetic is fp64: what is left to the test's bound is our own rounding.

    python scripts/golden/ops.py
"""

import json
import pathlib

import torch
import transformers
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/ops"
SEED = 5


def numbers(tensor):
    return tensor.double().flatten().tolist()


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float32).double()


def rms_norm(x, gain, eps):
    return torch.nn.functional.rms_norm(x, gain.shape, gain, eps)


def attention_case(heads, kv_heads, width, length, theta, with_norm):
    qkv = normal(length, heads + 2 * kv_heads, width)
    q, k, v = qkv.split([heads, kv_heads, kv_heads], dim=1)
    case = {"heads": heads, "kv_heads": kv_heads, "head_dim": width, "length": length, "theta": theta, "eps": 1e-6}
    case["qkv"] = numbers(qkv)
    if with_norm:
        q_gain, k_gain = normal(width), normal(width)
        case |= {"q_gain": numbers(q_gain), "k_gain": numbers(k_gain)}
        q, k = rms_norm(q, q_gain, 1e-6), rms_norm(k, k_gain, 1e-6)
    frequencies = theta ** (-torch.arange(0, width, 2).double() / width)
    angles = torch.arange(length).double()[:, None] * frequencies
    # The contract stores cosines and sines as fp32.
    angles = torch.cat([angles, angles], dim=-1)
    cos, sin = angles.cos().float().double(), angles.sin().float().double()
    q, k = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1)
    case |= {"q": numbers(q), "k": numbers(k)}
    context = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), is_causal=True, enable_gqa=True
    )
    case["context"] = numbers(context.transpose(0, 1))
    return case


def main():
    torch.manual_seed(SEED)
    x, gain, gate_up = normal(3, 33), normal(33), 4 * normal(2, 2 * 33)
    gate, up = gate_up.chunk(2, dim=-1)
    golden = {
        "rms_norm": {"x": numbers(x), "gain": numbers(gain), "eps": 1e-5, "y": numbers(rms_norm(x, gain, 1e-5))},
        "swiglu": {"gate_up": numbers(gate_up), "y": numbers(torch.nn.functional.silu(gate) * up)},
        "attention": [
            attention_case(6, 2, 10, 9, 1e4, True),
            attention_case(3, 3, 6, 19, 1e6, False),
            attention_case(5, 1, 34, 7, 5e5, True),
        ],
    }
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "ops.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    manifest = {
        "command": "python scripts/golden/ops.py",
        "seed": SEED,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "files": ["ops.json"],
    }
    (OUT / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


main()
