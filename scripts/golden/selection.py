#!/usr/bin/env python3
"""What a mini-batch as a whole decides, in numpy: which tokens have the highest entropy, which ones Clip-Cov leaves out,
and the mean of the correction's weights.

Writes tests/data/golden/selection.json: two micro-batches of float32 numbers, and cases with the tokens that teach. It
shares nothing with src/learner: the formulas are the papers', Clip-Cov's draw is SplitMix64's finalizer of the bits of a
token's log-prob, entropy and advantage.

    python scripts/golden/selection.py
"""
import json
import math
import pathlib

import numpy as np

SEED = 20260911
MASK = (1 << 64) - 1


def draw(token):
    mixed = 0
    for value in token:
        mixed = (mixed + int(np.float64(value).view(np.uint64)) + 0x9E3779B97F4A7C15) & MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        mixed ^= mixed >> 31
    return mixed


def top_entropy(batch, share):
    entropy = batch["entropy"].astype(np.float64)
    floor = np.sort(entropy)[::-1][math.ceil(share * len(entropy)) - 1]
    return entropy >= floor


def clip_cov(batch, ratio, low, high):
    log_probs, advantages = batch["old"].astype(np.float64), batch["advantages"].astype(np.float64)
    covariance = (advantages - advantages.mean()) * (log_probs - log_probs.mean())
    candidates = np.flatnonzero((covariance > low) & (covariance < high))
    of = {i: draw((batch["old"][i], batch["entropy"][i], batch["advantages"][i])) for i in candidates}
    chosen = sorted(candidates, key=of.get)[:max(1, int(ratio * len(covariance)))]
    taught = np.ones(len(covariance), bool)
    taught[chosen] = False
    return taught


def weight_scales(batch, lengths, cap):
    """1 over the mean of TIS's weights over tokens, and of TBPO's, one a response, over responses."""
    log_rho = batch["old"].astype(np.float64) - batch["sampler"].astype(np.float64)
    of_response = np.array([part.mean() for part in np.split(log_rho, np.cumsum(lengths)[:-1])])
    return {"cap": cap, "scale": 1 / np.minimum(np.exp(log_rho), cap).mean(),
            "scale_of_responses": 1 / np.clip(np.exp(of_response), 1 / cap, cap).mean()}


def main():
    rng = np.random.default_rng(SEED)
    lengths = [7, 12, 1, 20, 5, 9]  # of the responses; a prompt token stands before each
    count = sum(lengths)
    of_sequence = rng.normal(0, 1, len(lengths)).astype(np.float32)
    old = (-np.abs(rng.normal(1, 1, count))).astype(np.float32)
    batch = {"old": old, "sampler": (old + rng.normal(0, 0.5, count)).astype(np.float32),
             "entropy": np.abs(rng.normal(1, 0.5, count)).astype(np.float32),
             "advantages": np.repeat(of_sequence, lengths)}
    batch["entropy"][3] = batch["entropy"][40]  # a tie
    of_sequence[1] = of_sequence[3]  # so that tokens of two sequences, and of both micro-batches, have one draw
    batch["advantages"] = np.repeat(of_sequence, lengths)
    tied = [10, 24, 31, 38]
    for name in ("old", "entropy"):
        batch[name][tied] = batch[name][10]
    cases = []
    for share in (0.2, 0.5, 0.01):
        cases.append({"algorithm": f"top_entropy_quantile: {share}", "taught": top_entropy(batch, share)})
    for ratio, low, high in ((0.1, 0.2, 5), (0.02, 0.5, 5), (1, 0.5, 1.5), (0.001, -9, 9)):
        cases.append({"algorithm": f"clip_cov: {{ratio: {ratio}, low: {low}, high: {high}}}",
                      "taught": clip_cov(batch, ratio, low, high)})
    cases.append({"algorithm": "top_entropy_quantile: 0.5, clip_cov: {ratio: 0.1, low: 0.2, high: 5}",
                  "taught": top_entropy(batch, 0.5) & clip_cov(batch, 0.1, 0.2, 5)})
    wide = (-9, 9)  # all are candidates
    order = sorted(range(count), key=lambda i: draw((batch["old"][i], batch["entropy"][i], batch["advantages"][i])))
    ratio = (order.index(10) + 2.5) / count  # two of the four that are tied
    cases.append({"algorithm": f"clip_cov: {{ratio: {ratio}, low: {wide[0]}, high: {wide[1]}}}",
                  "taught": clip_cov(batch, ratio, *wide)})
    assert cases[-1]["taught"][tied].tolist() == [False, False, True, True]
    for case in cases:
        assert 0 < case["taught"].sum() < count
        case["taught"] = case["taught"].astype(int).tolist()
    path = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "selection.json"
    golden = {"manifest": {"command": "python scripts/golden/selection.py", "seed": SEED, "numpy": np.__version__},
              "lengths": lengths, "in_first": 3, "weight_scale": weight_scales(batch, lengths, 2), "cases": cases}
    golden.update({name: [float(x) for x in values] for name, values in batch.items()})
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{path}: {len(cases)} cases, {count} tokens")


if __name__ == "__main__":
    main()
