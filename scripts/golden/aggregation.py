#!/usr/bin/env python3
"""Both ways from several scores to advantages, in numpy float64: with scores that do not apply and responses not judged.

Writes tests/data/golden/aggregation.json: batches of groups, the weights, and the advantages of reward.aggregation
sum_then_normalize and normalize_then_sum. A response has its scores (null: not applicable) or null (not judged).
The second is GDPO's (arXiv 2601.05242). It shares nothing with src/rollout.

    python scripts/golden/aggregation.py
"""
import json
import pathlib

import numpy as np

SEED = 20260125
EPS = 1e-6


def normalized(values):
    """(v - mean) / (std + eps) of the values that are not null; 0 where they are equal or fewer than two."""
    there = ~np.isnan(values)
    out = np.zeros_like(values)
    if there.sum() >= 2 and np.ptp(values[there]) > 0:
        out[there] = (values[there] - values[there].mean()) / (values[there].std(ddof=1) + EPS)
    return out


def sum_then_normalize(groups, weights):
    advantages = []
    for group in groups:
        judged = np.array([response is not None for response in group])
        total = np.full(len(group), np.nan)
        for i, response in enumerate(group):
            if response is not None:
                total[i] = np.nansum(weights * response)
        out = normalized(total)
        advantages.append([0.0 if not ok or judged.sum() < 2 else a for a, ok in zip(out, judged)])
    return advantages


def normalize_then_sum(groups, weights):
    sums, teaches = [], []
    for group in groups:
        judged = np.array([response is not None for response in group])
        scores = np.array([response if response is not None else [np.nan] * len(weights) for response in group])
        sums.append(sum(weight * normalized(scores[:, k]) for k, weight in enumerate(weights)))
        teaches.append(judged if judged.sum() >= 2 else np.zeros(len(group), bool))
    flat, mask = np.concatenate(sums), np.concatenate(teaches)
    out = np.zeros_like(flat)
    if mask.sum() >= 2 and flat[mask].std(ddof=1) > 0:
        out[mask] = (flat[mask] - flat[mask].mean()) / flat[mask].std(ddof=1)
    return out.reshape(len(groups), -1).tolist()


def main():
    random = np.random.default_rng(SEED)
    cases = []
    for case in range(12):
        names, n, num_groups = 1 + case % 4, 2 + case % 5, 1 + case
        weights = np.round(random.normal(size=names), 2)
        groups = []
        for g in range(num_groups):
            group = [np.round(random.normal(size=names), 3) for _ in range(n)]
            if g % 4 == 1:
                group = [group[0].copy() for _ in range(n)]  # flat
            for i in range(n):
                if case >= 4 and random.random() < 0.2:
                    group[i][int(random.integers(names))] = np.nan if names > 1 else group[i][0]
                if case >= 8 and random.random() < 0.35:
                    group[i] = None
            groups.append(group)
        shown = [[None if r is None else [None if np.isnan(s) else float(s) for s in r] for r in group] for group in groups]
        cases.append({"weights": weights.tolist(), "groups": shown, "sum_then_normalize": sum_then_normalize(groups, weights),
                      "normalize_then_sum": normalize_then_sum(groups, weights)})
    file = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/aggregation.json"
    file.write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
