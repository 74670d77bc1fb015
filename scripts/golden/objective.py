#!/usr/bin/env python3
"""Every loss x aggregation x correction of algorithms.md, token by token in numpy float64, gradients derived by hand.

Writes tests/data/golden/objective.json: batches with their inputs, and cases with the settings, the terms of the
objective and d total / d log_prob of each token. It shares nothing with src/learner: the formulas are the papers', as
loops over sequences and tokens.

    python scripts/golden/objective.py
"""
import itertools
import json
import math
import pathlib

import numpy as np

F = np.float64
SEED = 20260107
MAX_LOG = F(20)

# ---------------------------------------------------------------- the papers' formulas


def clamped_ratio(log_p, log_q):
    """(clamped log-ratio, its slope by log_p)."""
    x = log_p - log_q
    return (min(max(x, -MAX_LOG), MAX_LOG), F(1) if -MAX_LOG <= x <= MAX_LOG else F(0))


def ppo(ratio, a, low, high):
    """(min(R a, clip(R) a), its derivative by R)."""
    inside = min(max(ratio, low), high)
    if ratio * a <= inside * a:
        return ratio * a, a
    return inside * a, F(0)


def correction_weights(batch, tokens_of, case):
    """Weight of each token: FlashRL's TIS, IcePop, MIS, QaRL, AIS."""
    method, c, c_low = case["correction"], F(case["threshold"]), F(case["threshold_low"])
    weight = np.ones(len(batch["old"]))
    log_rho = [clamped_ratio(o, m)[0] for o, m in zip(batch["old"], batch["sampler"])]
    for tokens in tokens_of.values():
        total = F(0)
        for t in tokens:
            total += log_rho[t]
        product = math.exp(min(max(total, -MAX_LOG), MAX_LOG))
        geometric = math.exp(total / len(tokens))
        for t in tokens:
            rho = math.exp(log_rho[t])
            if method == "tis":
                weight[t] = min(rho, c)
            elif method == "icepop":
                weight[t] = rho if c_low <= rho <= c else 0
            elif method == "ais":
                weight[t] = 1 + F(case["ais_alpha"]) * (min(rho, c) - 1)
            elif method == "mis_prod":
                weight[t] = product if product <= c else 0
            elif method == "mis_geo":
                weight[t] = 1 if c_low <= geometric <= c else 0
            elif method == "tbpo" and 1 / c <= geometric <= c:
                weight[t] = geometric
            elif method == "tbpo":
                weight[t] = 0 if case["drop"] else min(max(geometric, 1 / c), c)
    return weight


def is_bound(batch, t, case):
    """Whether a bound may stop token t: always, or only if the update has moved it in the advantage's direction."""
    moved = batch["log_probs"][t] - batch["old"][t]
    return not case.get("moved_only") or (moved > 0 if batch["advantages"][t] > 0 else moved < 0)


def token_surrogates(batch, tokens_of, case):
    """GRPO, Dr. GRPO, DAPO: (J_t, dJ_t/dlog p_t) of each token."""
    values, slopes = np.zeros(len(batch["old"])), np.zeros(len(batch["old"]))
    base = batch["sampler"] if case["behaviour_in_ratio"] else batch["old"]
    for t, a in enumerate(batch["advantages"]):
        log_r, slope = clamped_ratio(batch["log_probs"][t], base[t])
        ratio = math.exp(log_r)
        high = 1 + F(case["clip_high"])
        if case["acr"]:
            rho = math.exp(clamped_ratio(batch["old"][t], batch["sampler"][t])[0])
            high = high / min(F(1), F(case["threshold"]) / rho)
        value, derivative = ppo(ratio, a, 1 - F(case["clip_low"]), high) if is_bound(batch, t, case) else (ratio * a, a)
        if case["dual_clip"] is not None and a < 0 and value < case["dual_clip"] * a:
            value, derivative = case["dual_clip"] * a, F(0)
        values[t], slopes[t] = value, derivative * ratio * slope
    return values, slopes


def sequence_surrogates(batch, tokens_of, case):
    """GSPO and TBPO: the sequence's J on each token, and d(J of the sequence)/dlog p_t times the sequence's length.

    In GSPO's token form J_it depends on log p_t alone, with slope s_i; summed over the tokens of a sequence whose
    weights are equal the two forms have one gradient. So the slope is that of the token form, always."""
    values, slopes = np.zeros(len(batch["old"])), np.zeros(len(batch["old"]))
    for tokens in tokens_of.values():
        parts = [clamped_ratio(batch["log_probs"][t], batch["old"][t]) for t in tokens]
        s = math.exp(sum((x for x, _ in parts), F(0)) / len(tokens))
        a = batch["advantages"][tokens[0]]
        if case["loss"] == "tbpo" and a < 0:
            low, high = 1 - F(case["neg_low"]), 1 + F(case["neg_high"])
            value, derivative = min(max(s, low), high) * a, a if low <= s <= high else F(0)
        else:
            value, derivative = ppo(s, a, 1 - F(case["clip_low"]), 1 + F(case["clip_high"]))
        for t, (_, slope) in zip(tokens, parts):
            values[t], slopes[t] = value, derivative * s * slope
    return values, slopes


def weighted_surrogates(batch, tokens_of, case):
    """CISPO and DPPO: J_t = M_t w_t A log p_t with M and w held fixed. SAPO: a soft gate of the ratio.

    DPPO (arXiv 2602.04879, section 5): the trust region is around the policy that sampled, mu, and w = min(pi / mu, c)."""
    values, slopes = np.zeros(len(batch["old"])), np.zeros(len(batch["old"]))
    for t, a in enumerate(batch["advantages"]):
        log_p, log_old = batch["log_probs"][t], batch["sampler" if case["loss"].startswith("dppo") else "old"][t]
        log_r, slope = clamped_ratio(log_p, log_old)
        ratio = math.exp(log_r)
        if case["loss"] == "sapo":
            tau = F(case["tau_pos"]) if a > 0 else F(case["tau_neg"])
            gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
            values[t], slopes[t] = 4 / tau * gate * a, 4 * gate * (1 - gate) * a * ratio * slope
            continue
        p, p_old = math.exp(log_p), math.exp(log_old)
        if case["loss"] == "cispo":
            weight = min(ratio, 1 + F(case["clip_high"]))
        elif case["loss"] == "dppo_tv":
            inside = p - p_old <= F(case["delta"]) if a > 0 else p - p_old >= -F(case["delta"])
            weight = min(ratio, F(case["ratio_cap"])) if inside or not is_bound(batch, t, case) else F(0)
        else:
            kl = p_old * math.log(p_old / p)
            if p_old < 1:
                kl += (1 - p_old) * math.log((1 - p_old) / (1 - p)) if p < 1 else math.inf
            returns = (p <= p_old if a > 0 else p >= p_old) or not is_bound(batch, t, case)
            weight = min(ratio, F(case["ratio_cap"])) if kl <= F(case["delta"]) or returns else F(0)
        values[t], slopes[t] = weight * a * log_p, weight * a
    return values, slopes


def kept(batch, tokens_of, case):
    """veRL's rejection: 1 where a token is kept. Statistics of rho by token, or by its sequence's sum, mean or maximum."""
    keep = np.ones(len(batch["old"]))
    if case.get("rs", "none") == "none" and not case.get("veto"):
        return keep
    of_token = {"k1": lambda x: x, "k2": lambda x: x * x / 2, "k3": lambda x: math.exp(x) - 1 - x}
    for tokens in tokens_of.values():
        log_rho = [clamped_ratio(batch["old"][t], batch["sampler"][t])[0] for t in tokens]
        if case.get("rs", "none") != "none":
            stats = [of_token[case["rs_stat"]](x) for x in log_rho]
            if case["rs"] == "seq_sum":
                whole = sum(stats, F(0))
                stats = [min(max(whole, -MAX_LOG), MAX_LOG) if case["rs_stat"] == "k1" else whole] * len(tokens)
            elif case["rs"] == "seq_mean":
                stats = [sum(stats, F(0)) / len(tokens)] * len(tokens)
            elif case["rs"] == "seq_max":
                stats = [max(stats)] * len(tokens)
            for t, stat in zip(tokens, stats):
                if case["rs_stat"] == "k1":
                    keep[t] = math.log(F(case["rs_low"])) <= stat <= math.log(F(case["rs_high"]))
                else:
                    keep[t] = stat <= F(case["rs_high"])
        if case.get("veto") and min(math.exp(x) for x in log_rho) < F(case["veto"]):
            for t in tokens:
                keep[t] = 0
    return keep


def off_policy_kept(batch, tokens_of, case):
    """DeepSeek-V3.2: 0 on sequences with A < 0 whose mean log(mu / pi) is above the threshold."""
    keep = np.ones(len(batch["old"]))
    if case.get("mask_threshold"):
        for tokens in tokens_of.values():
            drift = sum((clamped_ratio(batch["sampler"][t], batch["log_probs"][t])[0] for t in tokens), F(0)) / len(tokens)
            if batch["advantages"][tokens[0]] < 0 and drift > F(case["mask_threshold"]):
                for t in tokens:
                    keep[t] = 0
    return keep


K3_BOUND_RATIO = 13.610868638149876  # exp(-x) where k3 reaches 10 from below x = 0


def kl_term(log_p, log_ref, log_sampler, kind):
    """(value, derivative by log_p) of an estimate of KL(pi || reference); no clamp stops a finite token's gradient."""
    k1, _ = clamped_ratio(log_p, log_ref)
    slope = F(1) if math.isfinite(log_p - log_ref) else F(0)
    k2, k3 = k1 * k1 / 2, math.exp(-k1) + k1 - 1
    if kind == "k2":
        return k2, k1 * slope
    if kind == "unbiased":
        log_r, _ = clamped_ratio(log_p, log_sampler)  # the tokens are drawn from the sampler
        slope_r = F(1) if math.isfinite(log_p - log_sampler) else F(0)
        r = math.exp(log_r)
        return r * k3, r * k3 * slope_r + r * (1 - math.exp(-k1)) * slope
    value = min(k3, F(10))
    if kind == "k3+":
        return value, k1 * slope
    inside = 1 - math.exp(-k1)
    return value, (inside if k3 <= 10 else max(inside, 1 - F(K3_BOUND_RATIO))) * slope


def share(tokens, batch, mode):
    """What one token of this sequence counts in the mini-batch's loss."""
    return {
        "token-mean": F(1) / batch["num_tokens"],
        "token-sum": F(1),
        "seq-mean-token-sum": F(1) / batch["num_sequences"],
        "seq-mean-token-mean": F(1) / batch["num_sequences"] / len(tokens),
        "seq-mean-token-sum-norm": F(1) / batch["num_sequences"] / batch["max_response_length"],
    }[mode]


def solve(batch, case):
    tokens_of = {}
    for t, sequence in enumerate(batch["sequence"]):
        tokens_of.setdefault(sequence, []).append(t)
    surrogates = (sequence_surrogates if case["loss"] in ("gspo", "tbpo") else
                  weighted_surrogates if case["loss"] in WEIGHTED else token_surrogates)
    values, slopes = surrogates(batch, tokens_of, case)
    weight = correction_weights(batch, tokens_of, case) * kept(batch, tokens_of, case)
    weight = weight * off_policy_kept(batch, tokens_of, case)
    policy, kl, entropy = F(0), F(0), F(0)
    gradient = np.zeros(len(values))
    for tokens in tokens_of.values():
        part = share(tokens, batch, case["agg"])
        for t in tokens:
            policy -= part * weight[t] * values[t]
            kl_value, kl_slope = kl_term(batch["log_probs"][t], batch["reference"][t], batch["sampler"][t],
                                         case["kl_type"])
            kl += part * kl_value
            entropy += part * batch["entropy"][t]
            gradient[t] = -part * weight[t] * slopes[t] + case["kl_coef"] * part * kl_slope
    total = policy + case["kl_coef"] * kl - case["entropy_coef"] * entropy
    return {"policy": policy, "kl": kl, "total": total, "gradient": gradient}


def advantages(rewards, by_std):
    """GRPO's, of one group; Dr. GRPO's and AIS's without the division."""
    n = len(rewards)
    mean = sum(rewards, F(0)) / n if n > 1 else F(0)
    std = math.sqrt(sum(((r - mean) ** 2 for r in rewards), F(0)) / (n - 1)) if n > 1 else F(1)
    if n > 1 and all(r == rewards[0] for r in rewards):
        return [F(0)] * n
    return [(r - mean) / (std + F(1e-6)) if by_std else r - mean for r in rewards]


def ais(batch, settings):
    """AIS's alpha with population variances over all tokens."""
    n = len(batch["old"])
    log_rho = [clamped_ratio(o, m)[0] for o, m in zip(batch["old"], batch["sampler"])]
    w = [min(math.exp(x), settings["C"]) for x in log_rho]
    a = batch["advantages"]

    def spread(xs):
        mean = sum(xs, F(0)) / n
        return mean, math.sqrt(sum(((x - mean) ** 2 for x in xs), F(0)) / n)

    mean_w, std_w = spread(w)
    ess = (1 + (std_w / mean_w) ** 2) ** -0.5
    d_bar = sum((abs(x) for x in log_rho), F(0)) / n
    mis = min(1.0, d_bar / settings["delta"])
    sigma = spread([x * y for x, y in zip(a, w)])[1] / (spread(a)[1] + settings["eps"])
    var = max(0.0, (sigma - settings["gamma"]) / settings["gamma"])
    alpha = min(max(ess - settings["beta_var"] * var, 0.0), 1.0) * mis
    return {"alpha": alpha, "alpha_ess": ess, "alpha_mis": mis, "alpha_var": var, "d_bar": d_bar, "sigma_ratio": sigma}


# ---------------------------------------------------------------- batches


def make_batch(rng, name, lengths, groups, spread, **more):
    """`lengths` of the responses (0: empty or masked: no token, and no part in the counts), `groups` their rewards."""
    sequence = [s for s, length in enumerate(lengths) for _ in range(length)]
    count = len(sequence)
    of_sequence = [a for rewards in groups for a in advantages([F(r) for r in rewards], more.get("by_std", True))]
    log_probs = -np.abs(rng.normal(1, 1, count))
    batch = dict(
        name=name, sequence=sequence, log_probs=log_probs,
        old=log_probs + rng.normal(0, spread, count), sampler=log_probs + rng.normal(0, spread, count),
        reference=log_probs + rng.normal(0, spread, count), entropy=np.abs(rng.normal(1, 0.5, count)),
        advantages=[of_sequence[s] for s in sequence],
        rewards=groups, by_std=more.get("by_std", True), of_sequence=of_sequence,
        num_tokens=more.get("num_tokens", count), num_sequences=more.get("num_sequences", sum(n > 0 for n in lengths)),
        max_response_length=more.get("max_response_length", 16))
    return batch


def batches(rng):
    yield make_batch(rng, "near", [5, 1, 7, 3], [[1, 0, 0, 1]], 0.05)
    yield make_batch(rng, "far", [4, 6, 2, 5], [[1, 0, 0.25, 0]], 1.5)
    yield make_batch(rng, "drifted", [4, 6, 2, 5], [[1, 0, 0.25, 0]], 2e-4)
    yield make_batch(rng, "group of one, equal rewards, empty response, masked sequence", [3, 4, 0, 5, 2, 0],
                     [[0.7], [1, 1], [1, 0, 0.5]], 0.4, by_std=False)
    yield make_batch(rng, "one of many micro-batches", [4, 2], [[1, 0]], 0.3, num_tokens=91, num_sequences=17)

    # Token ratios and rho one part in 1e9 to either side of every bound, both signs of A.
    bounds = [0.8, 1.2, 1.28, 10.0, 0.5, 2.0, 5.0, 3.0, 1 / 0.6]
    sides = list(itertools.product(bounds, (1 - 1e-9, 1 + 1e-9)))
    edge = make_batch(rng, "around the tokens' bounds", [len(sides)] * 2, [[1, 0]], 0.0)
    for t in range(2 * len(sides)):
        value, side = sides[t % len(sides)]
        edge["old"][t] = edge["log_probs"][t] - math.log(value * side)
        other, its_side = sides[(5 * t + 1) % len(sides)]
        edge["sampler"][t] = edge["old"][t] - math.log(other * its_side)
    yield edge

    # Geometric means and products of sequences around theirs.
    ratios = [1 - 3e-4, 1 + 4e-4, 1 + 7e-4, 0.999, 1.001, 0.5, 2.0, 3.0]
    sides = list(itertools.product(ratios, (1 - 1e-9, 1 + 1e-9), (1, 0)))
    edge = make_batch(rng, "around the sequences' bounds", [2] * len(sides), [[r for *_, r in sides]], 0.0)
    for s, (value, side, _) in enumerate(sides):
        share_of_first = 0.3
        for t, part in ((2 * s, share_of_first), (2 * s + 1, 1 - share_of_first)):
            edge["old"][t] = edge["log_probs"][t] - 2 * part * math.log(value * side)
            rho = math.log(value * side) * (1 if value == 3.0 else 2)
            edge["sampler"][t] = edge["old"][t] - part * rho
    yield edge

    infinite = make_batch(rng, "infinite log-ratios", [6, 4, 3], [[1, 0, 0.5]], 0.2)
    for name, t in (("old", 0), ("sampler", 1), ("reference", 2), ("log_probs", 3), ("old", 7), ("log_probs", 8),
                    ("sampler", 11)):
        infinite[name][t] = -math.inf
    infinite["old"][9] = infinite["log_probs"][9] - 25  # beyond the clamp, finite
    infinite["sampler"][10] = infinite["log_probs"][10] - 25
    yield infinite

    # Ratios of exactly 1, which are on the corrections' bounds where those are 1.
    exact = make_batch(rng, ON_BOUNDS, [4, 2, 3], [[1, 0, 0.5]], 0.0)
    exact["sampler"][8] = exact["old"][8] + 0.25  # and one token below them
    yield exact


# ---------------------------------------------------------------- cases

AGGREGATIONS = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
LOSSES = {
    "grpo": dict(clip_low=0.2, clip_high=0.2, dual_clip=None),
    "dr_grpo": dict(clip_low=0.2, clip_high=0.2, dual_clip=None),
    "dapo": dict(clip_low=0.2, clip_high=0.28, dual_clip=10.0),
    "gspo": dict(clip_low=3e-4, clip_high=4e-4, dual_clip=None),
    "tbpo": dict(clip_low=3e-4, clip_high=4e-4, dual_clip=None),
    "cispo": dict(clip_low=0.0, clip_high=4.0, dual_clip=None),
    "sapo": dict(clip_low=0.0, clip_high=0.0, dual_clip=None, tau_pos=1.0, tau_neg=1.05),
    "dppo_tv": dict(clip_low=0.0, clip_high=0.0, dual_clip=None, delta=0.15, ratio_cap=20.0),
    "dppo_kl": dict(clip_low=0.0, clip_high=0.0, dual_clip=None, delta=0.05, ratio_cap=20.0),
}
WEIGHTED = ("cispo", "sapo", "dppo_tv", "dppo_kl")
REJECTIONS = [dict(rs="token", rs_stat="k1", rs_low=0.5, rs_high=2.0), dict(rs="token", rs_stat="k2", rs_high=0.1),
              dict(rs="token", rs_stat="k3", rs_high=0.1), dict(rs="seq_sum", rs_stat="k1", rs_low=0.5, rs_high=2.0),
              dict(rs="seq_sum", rs_stat="k2", rs_high=0.5), dict(rs="seq_mean", rs_stat="k1", rs_low=0.9, rs_high=1.1),
              dict(rs="seq_mean", rs_stat="k3", rs_high=0.05), dict(rs="seq_max", rs_stat="k2", rs_high=0.3),
              dict(rs="seq_max", rs_stat="k3", rs_high=0.3), dict(veto=0.5),
              dict(rs="token", rs_stat="k1", rs_low=0.5, rs_high=2.0, veto=0.3), dict(mask_threshold=0.02)]
CORRECTIONS = {
    "none": dict(correction="none", threshold=0.0),
    "tis": dict(correction="tis", threshold=2.0),
    "tis with acr": dict(correction="tis", threshold=2.0, acr=True),
    "behaviour in ratio": dict(correction="none", threshold=0.0, behaviour_in_ratio=True),
    "icepop": dict(correction="icepop", threshold=5.0, threshold_low=0.5),
    "mis_prod": dict(correction="mis_prod", threshold=3.0),
    "mis_geo": dict(correction="mis_geo", threshold=1.001, threshold_low=0.999),
    "tbpo clip": dict(correction="tbpo", threshold=2.0),
    "tbpo drop": dict(correction="tbpo", threshold=2.0, drop=True),
    "ais": dict(correction="ais", threshold=5.0),
}
COMBINED = ("loss", "agg", "correction", "acr", "behaviour_in_ratio", "drop", "rs", "rs_stat", "rs_low", "rs_high", "veto",
            "mask_threshold", "moved_only")
AIS = dict(C=5.0, delta=0.02, gamma=1.2, beta_var=1.0, eps=1e-6)
REGULARISERS = [dict(kl_coef=0.1, kl_type="k2"), dict(kl_coef=0.1, kl_type="k3"), dict(kl_coef=0.1, kl_type="k3+"),
                dict(kl_coef=0.1, kl_type="unbiased"),
                dict(entropy_coef=0.02), dict(kl_coef=0.01, kl_type="k3", entropy_coef=0.01)]


REGULARISED = ("near", "infinite log-ratios")
ON_BOUNDS = "on the corrections' bounds"
AT_1 = {
    "tis": [dict(threshold=1.0)],
    "tis with acr": [dict(threshold=1.0)],
    "icepop": [dict(threshold=1.0), dict(threshold_low=1.0)],
    "mis_prod": [dict(threshold=1.0)],
    "mis_geo": [dict(threshold=1.0), dict(threshold_low=1.0)],
    "tbpo clip": [dict(threshold=1.0)],
    "tbpo drop": [dict(threshold=1.0)],
    "ais": [dict(threshold=1.0)],
}


def is_defined(loss, correction):
    if loss in WEIGHTED and correction in ("tis with acr", "behaviour in ratio"):
        return False
    if loss.startswith("dppo"):
        return correction == "none"
    if loss == "tbpo":
        return correction in ("none", "tbpo clip", "tbpo drop")
    return loss != "gspo" or correction not in ("tis with acr", "behaviour in ratio")


def cases(batch):
    for loss, correction in itertools.product(LOSSES, CORRECTIONS):
        if not is_defined(loss, correction) or (loss in WEIGHTED and batch["name"] == "infinite log-ratios"):
            continue
        for agg in {"gspo": AGGREGATIONS[3:4], "tbpo": AGGREGATIONS[3:4], **{w: AGGREGATIONS[0:4:3] for w in WEIGHTED}}.get(
                loss, AGGREGATIONS):
            case = dict(loss=loss, agg=agg, threshold_low=0.0, acr=False, behaviour_in_ratio=False, drop=False,
                        neg_low=3e-4, neg_high=7e-4, kl_coef=0.0, kl_type="k3", entropy_coef=0.0, ais_alpha=0.0)
            case.update(LOSSES[loss])
            case.update(CORRECTIONS[correction])
            if case["correction"] == "ais":
                case["ais_alpha"] = batch["ais"]["alpha"]
            yield case
            if batch["name"] in REGULARISED and agg == "seq-mean-token-mean" and correction in ("tis", "tbpo clip"):
                for more in REGULARISERS:
                    yield {**case, **more}
            if batch["name"] in ("far", "near") and agg == "seq-mean-token-mean" and correction in ("tis", "none"):
                for more in REJECTIONS:
                    if loss != "tbpo" and (loss, correction) != ("gspo", "none"):
                        yield {**case, **more}
            around_sampler = case["behaviour_in_ratio"] or loss.startswith("dppo")
            if batch["name"] in ("far", "near") and agg == "seq-mean-token-mean" and around_sampler:
                yield {**case, "moved_only": True}
            if batch["name"] == ON_BOUNDS:
                for bound in AT_1.get(correction, []):
                    yield {**case, **bound}


def plain(value, digits=15):
    if isinstance(value, dict):
        return {key: plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item, digits) for item in value]
    if isinstance(value, (float, np.floating)):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return float(f"{float(value):.{digits}g}")
    return value


def rounded(solution):
    return {**plain(solution), "gradient": plain(solution["gradient"], 11)}


def main():
    rng = np.random.default_rng(SEED)
    out, count, combinations = [], 0, set()
    for batch in batches(rng):
        batch = {key: plain(value) for key, value in batch.items()}  # what the test reads is what is solved
        solved = {**batch, **{key: np.array([float(x) for x in batch[key]])
                              for key in ("log_probs", "old", "sampler", "reference", "entropy", "advantages")}}
        batch["ais"] = plain(ais(solved, AIS))
        solved["ais"] = batch["ais"]
        batch["cases"] = [{**plain(case), "expected": rounded(solve(solved, case))} for case in cases(solved)]
        count += len(batch["cases"])
        combinations |= {tuple(str(case.get(key)) for key in COMBINED) for case in batch["cases"]}
        out.append(batch)
    path = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "objective.json"
    manifest = {"command": "python scripts/golden/objective.py", "seed": SEED, "numpy": np.__version__, "cases": count,
                "combinations": len(combinations)}
    path.write_text(json.dumps({"manifest": manifest, "ais": AIS, "batches": out}, separators=(",", ":")) + "\n")
    print(f"{path}: {count} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
