"""Makes tests/data/golden/ops/delta_net.json: a gated DeltaNet layer by fla-core, the authors' own library.

    python scripts/golden/delta_net.py FOLDER      the unpacked wheel of fla-core; needs torch and einops

fla's loop over tokens computes the delta rule, and its chunked form must agree within 1e-9. Convolution, lengths, gates and the last
norm are torch's. Numbers are fp32 and arithmetic is fp64; gradients are torch's of the sum of outputs times `d_out`.
"""

import importlib.util
import json
import pathlib
import sys

import torch
from torch.nn import functional as F

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "ops" / "delta_net.json"
KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, TAPS, EPS = 1, 2, 16, 16, 4, 1e-5
LENGTH = 70


def load_fla(folder):
    path = pathlib.Path(folder) / "fla" / "ops" / "gated_delta_rule" / "naive.py"
    spec = importlib.util.spec_from_file_location("naive", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float32).double().requires_grad_(True)


def layer(rule, projections, gates_in, taps, a_log, dt_bias, gain):
    keys, values = KEY_HEADS * KEY_DIM, VALUE_HEADS * VALUE_DIM
    mixed, z = projections.split([2 * keys + values, values], dim=1)
    mixed = F.silu(F.conv1d(F.pad(mixed.t(), (TAPS - 1, 0))[None], taps[:, None], groups=taps.shape[0])[0].t())
    q, k, v = mixed.split([keys, keys, values], dim=1)

    def heads(x, count):
        return x.reshape(LENGTH, count, -1).repeat_interleave(VALUE_HEADS // count, dim=1)

    q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (heads(q, KEY_HEADS), heads(k, KEY_HEADS)))
    b, a = gates_in.split(VALUE_HEADS, dim=1)
    beta, g = torch.sigmoid(b), -torch.exp(a_log) * F.softplus(a + dt_bias)
    o = rule(q[None], k[None], heads(v, VALUE_HEADS)[None], beta=beta[None], g=g[None])[0][0]
    return (F.rms_norm(o, gain.shape, gain, EPS) * F.silu(heads(z, VALUE_HEADS))).reshape(LENGTH, -1)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    fla = load_fla(sys.argv[1])
    torch.Tensor.to = torch.Tensor.float = lambda x, *_, **__: x  # fla casts to fp32
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(7)
    channels = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
    inputs = {"projections": normal(LENGTH, channels + VALUE_HEADS * VALUE_DIM), "gates_in": normal(LENGTH, 2 * VALUE_HEADS),
              "taps": normal(channels, TAPS), "a_log": normal(VALUE_HEADS), "dt_bias": normal(VALUE_HEADS), "gain": normal(VALUE_DIM)}
    with torch.no_grad():
        inputs["a_log"] -= 3  # so that states remember more than a chunk
    out = layer(fla.naive_recurrent_gated_delta_rule, *inputs.values())
    difference = (out - layer(fla.naive_chunk_gated_delta_rule, *inputs.values())).abs().max().item()
    if not difference <= 1e-9:
        sys.exit(f"fla's two forms differ by {difference}")
    d_out = normal(*out.shape).detach()
    (out * d_out).sum().backward()
    golden = {"key_heads": KEY_HEADS, "value_heads": VALUE_HEADS, "key_dim": KEY_DIM, "value_dim": VALUE_DIM, "conv_width": TAPS,
              "eps": EPS, "length": LENGTH, "d_out": d_out, "out": out}
    golden |= inputs | {f"d_{name}": value.grad for name, value in inputs.items()}
    numbers = {name: [float(f"{x:.9g}") for x in value.flatten().tolist()] if isinstance(value, torch.Tensor) else value
               for name, value in golden.items()}
    OUT.write_text(json.dumps(numbers) + "\n")
    print(f"wrote {OUT}; fla's two forms differ by {difference:.1e}")


if __name__ == "__main__":
    main()
