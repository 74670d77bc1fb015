#!/usr/bin/env python3
"""Muon in numpy float64, without bf16: what Newton-Schulz makes of a matrix's singular values, and updates of weights.

Writes tests/data/golden/muon.json. The quintic acts on each singular value alone, so the expected orthogonalization is
U p(...p(S/|S|)) V^T from numpy's SVD, not from products of matrices. Beside each result stand the bounds that
tests/learner/muon_test.cpp checks: the smallest and largest singular value that the polynomial can give for these, and
the update's RMS.

    python scripts/golden/muon.py
"""
import json
import math
import pathlib

import numpy as np

SEED, STEPS = 20260111, 5
A, B, C = 3.4445, -4.7750, 2.0315


def polynomial(s, steps):
    for _ in range(steps):
        s = A * s + B * s**3 + C * s**5
    return s


def orthogonalize(g, steps):
    u, s, vt = np.linalg.svd(g, full_matrices=False)
    norm = np.sqrt((s**2).sum())
    values = polynomial(s / (norm + 1e-7), steps)
    return (u * values) @ vt, s / (norm + 1e-7), values


def run(weights, gradients, settings):
    w, m = weights.copy(), np.zeros_like(weights)
    for g in gradients:
        g = g * settings["gradient_scale"]
        m = settings["momentum"] * m + g
        o, _, _ = orthogonalize(g + settings["momentum"] * m if settings["nesterov"] else m, settings["ns_steps"])
        scale = 0.2 * math.sqrt(max(w.shape)) if settings["match_adamw_rms"] else 1.0
        w = w * (1 - settings["lr"] * settings["weight_decay"]) - settings["lr"] * scale * o
    return w, m


def listed(x):
    return [float(f"{v:.9g}") for v in np.asarray(x).ravel()]


def main():
    rng = np.random.default_rng(SEED)
    spectra, updates = [], []
    for rows, cols in [(7, 33), (33, 7), (16, 16), (1, 9), (9, 1), (64, 24)]:
        g = rng.normal(0, 1, (rows, cols)).astype(np.float32).astype(np.float64)
        o, before, after = orthogonalize(g, STEPS)
        spectra.append(dict(rows=rows, cols=cols, matrix=listed(g), orthogonal=listed(o), before=listed(before),
                            after=listed(after), rms=float(np.sqrt((o**2).mean()) * 0.2 * math.sqrt(max(rows, cols)))))
    for settings in [dict(nesterov=True, match_adamw_rms=True, gradient_scale=1.0, ns_steps=5),
                     dict(nesterov=False, match_adamw_rms=True, gradient_scale=0.25, ns_steps=5),
                     dict(nesterov=True, match_adamw_rms=False, gradient_scale=1.0, ns_steps=3)]:
        settings = dict(settings, momentum=0.95, lr=0.02, weight_decay=0.1)
        weights = rng.normal(0, 0.3, (6, 11)).astype(np.float32).astype(np.float64)
        gradients = [rng.normal(0, 2, weights.shape).astype(np.float32).astype(np.float64) for _ in range(3)]
        w, m = run(weights, gradients, settings)
        updates.append(dict(settings=settings, rows=6, cols=11, weights=listed(weights),
                            gradients=[listed(g) for g in gradients], expected=listed(w), momentum=listed(m)))
    # The range the polynomial can give: any singular value from 1/50 of the norm to all of it.
    reachable = polynomial(np.linspace(0.02, 1, 1_000_001), STEPS)
    out = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "muon.json"
    manifest = {"command": "python scripts/golden/muon.py", "seed": SEED, "numpy": np.__version__}
    out.write_text(json.dumps(dict(manifest=manifest, steps=STEPS, lowest=float(reachable.min()),
                                   highest=float(reachable.max()), spectra=spectra, updates=updates)) + "\n")
    print(f"{out}: singular values from {reachable.min():.3f} to {reachable.max():.3f};",
          "RMS", [round(s["rms"], 3) for s in spectra])


if __name__ == "__main__":
    main()
