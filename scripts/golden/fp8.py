"""Makes tests/data/golden/quant/fp8.json: torch's float8_e4m3fn over every bf16 number and every code.

`codes` are those of all 65,536 bf16 numbers in order of their bits, run-length encoded as [code, count, code, count, …];
numbers beyond ±448 are clamped first (torch makes NaN of them, we saturate; NaN stays NaN). `values` are the fp32 bits of
the 256 codes.

    python scripts/golden/fp8.py
"""

import json
import pathlib

import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/quant/fp8.json"


def main():
    bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    numbers = bits.view(torch.bfloat16).float().clamp(-448, 448)
    codes = numbers.to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    counts = np.diff(np.concatenate([starts, [len(codes)]]))
    runs = [int(n) for pair in zip(codes[starts], counts) for n in pair]
    values = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn).float()
    OUT.write_text(json.dumps({
        "made_by": "scripts/golden/fp8.py", "torch": torch.__version__,
        "codes": runs, "values": [int(v) for v in values.numpy().view(np.uint32)]}) + "\n")


if __name__ == "__main__":
    main()
