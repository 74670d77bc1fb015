#!/usr/bin/env python3
"""Writes tests/data/golden/gain_noise.json: the normal numbers on the gains of a model's norms, and QeRL's schedule.

    python scripts/golden/gain_noise.py

Philox and Box-Muller from their papers, in Python's integers and doubles. The schedule is that of QeRL's
noise_scheduler.py: a list of the deviations after the first stage, and the place in it that a step has.
"""
import json
import math
import pathlib

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/gain_noise.json"
SEED, PURPOSE = 7, 11  # RandomPurpose::gain_noise
WIDTHS = [24, 10, 10, 24] * 2 + [24]  # input norm, q, k, norm of the MLP, a layer each; final norm
M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC'11)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & M32, (a >> 32) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def normal(seed, version, norm, channel):
    key = splitmix(splitmix(seed) ^ PURPOSE)
    w = philox((version & M32, version >> 32, norm, channel), (key & M32, key >> 32))
    u, v = ((w[i] << 21 | w[i + 1] >> 11) / 2**53 for i in (0, 2))
    return math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)


def deviation(step, total, start, end, stages):
    trend = [start * (end / start) ** (i / (stages - 2)) for i in range(stages - 1)]
    interval = min(step, total) * stages // total
    return 0.0 if interval == 0 else trend[min(interval - 1, len(trend) - 1)]


def main():
    assert philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's known answer
    versions = [{"version": version, "z": [[normal(SEED, version, norm, i) for i in range(width)]
                                           for norm, width in enumerate(WIDTHS)]} for version in (3, 2**33 + 5)]
    schedule = [{"start": start, "end": end, "stages": stages, "total": total,
                 "sigma": [deviation(step, total, start, end, stages) for step in range(total + 1)]}
                for start, end, stages, total in ((1e-2, 1e-4, 10, 60), (1e-2, 1e-4, 10, 7), (0.5, 0.25, 3, 9))]
    OUT.write_text(json.dumps({"manifest": {"command": "python scripts/golden/gain_noise.py"}, "seed": SEED,
                               "versions": versions, "schedule": schedule}) + "\n")


if __name__ == "__main__":
    main()
