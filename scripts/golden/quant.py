"""Makes tests/data/golden/quant/: the INT8 codec by numpy.

The definition is written anew here from src/quant/format.h's words: scale = amax / 127 in fp32, code = w / scale in fp32
rounded half to even. `all_bf16` covers every finite bf16 number, 256 neighbors a row; its codes are kept as one weighted
sum a row, which a single wrong code changes.

    python scripts/golden/quant.py
"""

import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/quant"


def encode(row):
    scale = np.float32(np.abs(row).max() / np.float32(127))
    if scale == 0:
        return scale, np.zeros(len(row), np.int64)
    codes = np.clip(np.rint((row / scale).astype(np.float32)), -127, 127)
    return scale, codes.astype(np.int64)


def bits(value):
    return int(np.float32(value).view(np.uint32))


def main():
    rng = np.random.default_rng(3)
    rows = [
        np.concatenate([np.arange(-127, 128) / 2, [127.0, -127.0]]),  # scale 1: every half is a tie
        np.concatenate([np.arange(-127, 128) / 2, [127.0]]) * 2.0**-40,
        rng.normal(size=257),
        rng.normal(size=33) * 1e-30,
        rng.standard_t(2, size=64) * 1e20,
        np.zeros(7),
        np.array([0.0, -0.0, 3.0]),
        np.array([1e-45, -1e-43, 2.7e-43]),  # subnormal scale
        np.array([3.4028235e38, -1.0, 1e36]),
    ]
    cases = []
    for row in rows:
        row = row.astype(np.float32)
        scale, codes = encode(row)
        cases.append({"bits": [bits(x) for x in row], "scale_bits": bits(scale), "codes": codes.tolist()})

    all_bf16 = []
    with np.errstate(over="ignore"):
        for high in range(256):
            patterns = (np.arange(256, dtype=np.uint32) + np.uint32(256 * high)) << np.uint32(16)
            row = patterns.view(np.float32)
            if not np.isfinite(row).all():
                continue
            scale, codes = encode(row)
            weighted = int((codes * (np.arange(256) + 1)).sum())
            all_bf16.append({"high": high, "scale_bits": bits(scale), "weighted_sum": weighted})

    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "int8.json").write_text(json.dumps({"cases": cases, "all_bf16": all_bf16}, separators=(",", ":")) + "\n")
    manifest = {"command": "python scripts/golden/quant.py", "seed": 3, "numpy": np.__version__, "files": ["int8.json"]}
    (OUT / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


main()
