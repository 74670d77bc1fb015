#!/usr/bin/env python3
"""GRPO with token TIS and KL, token by token in Python floats (fp64), with gradients by hand.

Writes tests/data/golden/losses.json: cases with their inputs, the loss terms and d total / d log_prob. It shares nothing
with src/learner: the formulas are those of the papers, written as loops. Infinities are the strings "inf" and "-inf".

    python scripts/golden/losses.py
"""
import json
import math
import pathlib
import random

CLAMP, KL_CLAMP = 20.0, 10.0


def clamp(x, low, high):
    return min(max(x, low), high)


def difference(a, b):
    return math.nan if a == b and math.isinf(a) else a - b


def policy_term(log_p, log_old, log_mu, advantage, case):
    """(value, derivative by log_p) of min(rho, C) · −min(R A, clip(R) A)."""
    log_ratio = difference(log_p, log_old)
    ratio = math.exp(clamp(log_ratio, -CLAMP, CLAMP))
    slope = ratio if -CLAMP <= log_ratio <= CLAMP else 0.0
    low, high = 1 - case["clip_low"], 1 + case["clip_high"]
    plain, clipped = ratio * advantage, clamp(ratio, low, high) * advantage
    weight = 1.0
    if case["correction"] == "tis":
        weight = min(math.exp(clamp(difference(log_old, log_mu), -CLAMP, CLAMP)), case["threshold"])
    # Inside the band both branches are the same function; outside, the clipped one is constant.
    derivative = slope * advantage if plain <= clipped else 0.0
    return -weight * min(plain, clipped), -weight * derivative


def kl_term(log_p, log_ref, kind):
    x = difference(log_p, log_ref)
    k1, slope = clamp(x, -CLAMP, CLAMP), 1.0 if -CLAMP <= x <= CLAMP else 0.0
    if kind == "k1":
        value, derivative = k1, slope
    elif kind == "k2":
        value, derivative = 0.5 * k1 * k1, k1 * slope
    else:
        value, derivative = math.exp(-k1) + k1 - 1, (1 - math.exp(-k1)) * slope
    if not -KL_CLAMP <= value <= KL_CLAMP:
        return clamp(value, -KL_CLAMP, KL_CLAMP), 0.0
    return value, derivative


def solve(case):
    """Fills in the case's expected values: mean over sequences of the mean over their tokens."""
    policy = kl = entropy = 0.0
    gradient = []
    for t, sequence in enumerate(case["sequence"]):
        share = 1.0 / (case["sequence"].count(sequence) * case["num_sequences"])
        value, slope = policy_term(case["log_probs"][t], case["old"][t], case["sampler"][t], case["advantages"][t], case)
        kl_value, kl_slope = kl_term(case["log_probs"][t], case["reference"][t], case["kl_type"])
        policy += share * value
        kl += share * kl_value
        entropy += share * case["entropy"][t]
        gradient.append(share * (slope + case["kl_coef"] * kl_slope))
    case["expected"] = {
        "policy": policy,
        "kl": kl,
        "total": policy + case["kl_coef"] * kl - case["entropy_coef"] * entropy,
        "gradient": gradient,
    }


def random_case(rng, name, lengths, spread, num_sequences=None, **settings):
    sequence = [s for s, length in enumerate(lengths) for _ in range(length)]
    count = len(sequence)
    advantages = [rng.gauss(0, 1) for _ in lengths]
    log_probs = [-abs(rng.gauss(1, 1)) for _ in range(count)]
    near = lambda scale: [x + rng.gauss(0, scale) for x in log_probs]
    case = dict(
        name=name, sequence=sequence, num_sequences=num_sequences or len(lengths), log_probs=log_probs,
        old=near(spread), sampler=near(spread), reference=near(spread), advantages=[advantages[s] for s in sequence],
        entropy=[abs(rng.gauss(1, 0.5)) for _ in range(count)], clip_low=0.2, clip_high=0.2, correction="tis",
        threshold=2.0, kl_coef=0.0, kl_type="k3", entropy_coef=0.0)
    case.update(settings)
    return case


def main():
    rng = random.Random(20260101)
    cases = [
        random_case(rng, "plain", [7, 3, 11], 0.3, correction="none"),
        random_case(rng, "tis", [5, 1, 9], 0.8),
        random_case(rng, "asymmetric clip", [4, 6], 0.5, clip_low=0.1, clip_high=0.28, threshold=1.2),
        random_case(rng, "k1", [3, 5], 0.5, kl_coef=0.1, kl_type="k1"),
        random_case(rng, "k2", [3, 5], 0.5, kl_coef=0.1, kl_type="k2"),
        random_case(rng, "k3 and entropy", [3, 5, 2], 0.5, kl_coef=0.01, entropy_coef=0.02),
        random_case(rng, "one token", [1], 0.3, kl_coef=0.1),
        random_case(rng, "one of many micro-batches", [4, 2], 0.3, num_sequences=17),
        random_case(rng, "huge log-ratios", [6, 6], 40.0, kl_coef=0.1),
    ]
    # Ratios on both sides of each clip bound, for both signs of the advantage (the bounds themselves are not
    # representable exactly, so one part in 1e12 to either side).
    bounds = random_case(rng, "around the clip bounds", [16], 0.0)
    for t in range(16):
        bound = 0.8 if t % 4 < 2 else 1.2
        bounds["old"][t] = bounds["log_probs"][t] - math.log(bound * (1 + (1e-12 if t % 2 else -1e-12)))
        bounds["advantages"][t] = 1.5 if t < 8 else -0.5
    cases.append(bounds)
    infinite = random_case(rng, "infinite log-ratios", [6], 0.2, kl_coef=0.1)
    infinite["old"][0] = infinite["sampler"][1] = infinite["reference"][2] = -math.inf
    infinite["log_probs"][3] = -math.inf
    infinite["advantages"][0], infinite["advantages"][3] = -1.0, 2.0
    cases.append(infinite)
    for case in cases:
        solve(case)

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, float) and math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return value

    out = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "losses.json"
    manifest = {"command": "python scripts/golden/losses.py", "seed": 20260101, "python": "3 (floats only)"}
    out.write_text(json.dumps({"manifest": manifest, "cases": plain(cases)}, indent=1) + "\n")
    print(f"{out}: {len(cases)} cases")


if __name__ == "__main__":
    main()
