"""Golden values of the fixed int8 profile: SmoothQuant's factors (alpha = 0.5), scales a row, and the codes and norm
gains that a snapshot of moved weights then holds. Written with numpy alone, float32 as the product computes.

usage: int8_profile.py OUT.json
"""
import json
import sys

import numpy as np

rng = np.random.default_rng(7)
D, H, K, E, F = 8, 2, 1, 4, 12
f32 = np.float32
shapes = {"self_attn.q_proj": (H * E, D), "self_attn.k_proj": (K * E, D), "self_attn.v_proj": (K * E, D),
          "self_attn.o_proj": (D, H * E), "mlp.gate_proj": (F, D), "mlp.up_proj": (F, D), "mlp.down_proj": (D, F)}
behind = {"input_layernorm": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
          "post_attention_layernorm": ["mlp.gate_proj", "mlp.up_proj"]}
weights = {name: rng.normal(0, 0.3, shape).astype(f32) for name, shape in shapes.items()}
moved = {name: (w * f32(1.1) + rng.normal(0, 0.02, w.shape).astype(f32)) for name, w in weights.items()}
gains = {name: rng.uniform(0.5, 2, D).astype(f32) for name in behind}
ranges = {name: rng.uniform(0.1, 30, D).astype(f32) for name in behind}
ranges["input_layernorm"][3] = 0  # a channel that nothing comes through

golden = {"sizes": {"hidden_size": D, "heads": H, "kv_heads": K, "head_dim": E, "ffn": F}, "matrices": {}, "norms": {}}
factors_of = {}
for norm, matrices in behind.items():
    amax = np.max([np.abs(weights[m]).max(axis=0) for m in matrices], axis=0)
    with np.errstate(divide="ignore"):
        smoothing = np.where(ranges[norm] > 0, np.sqrt(ranges[norm].astype(np.float64) / amax), 1.0).astype(f32)
    for m in matrices:
        factors_of[m] = smoothing
    golden["norms"][norm] = {"gain": gains[norm].tolist(), "range": ranges[norm].tolist(),
                             "smoothing": smoothing.tolist(), "folded": (gains[norm] / smoothing).tolist()}
for name, w in weights.items():
    factors = factors_of.get(name, np.ones(w.shape[1], f32))
    scale = (np.abs(w * factors).max(axis=1) / f32(127)).astype(f32)
    codes = np.clip(np.rint(moved[name] * factors / scale[:, None]), -127, 127)
    golden["matrices"][name] = {"weights": w.ravel().tolist(), "moved": moved[name].ravel().tolist(),
                                "scale": scale.tolist(), "codes": codes.astype(int).ravel().tolist()}
json.dump(golden, open(sys.argv[1], "w"))
