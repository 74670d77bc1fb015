#!/usr/bin/env python3
"""Writes tests/compare/golden/statistics.json: scipy's and statsmodels' results of the tests in src/compare/statistics.

    pip install scipy==1.16.3 statsmodels==0.14.5; scripts/golden/compare.py

Sign flips are scipy.stats.permutation_test with all 2^n flips; rates are of 20,000 normal samples each.
"""
import json
import pathlib

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/compare/golden/statistics.json"
MARGIN, RATE_MARGIN, DRAWS = 0.8, 1.0, 20_000


def flips(values, alternative):
    return stats.permutation_test((values,), np.sum, permutation_type="samples", alternative=alternative, n_resamples=np.inf,
                                  vectorized=False).pvalue


def sample(rng, count):
    values = np.round(rng.normal(0.4, 1, count), 6)
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    above, below = flips(values + MARGIN, "greater"), flips(values - MARGIN, "less")
    return {"differences": values.tolist(), "p_two_sided": flips(values, "two-sided"), "p_above": above, "p_below": below,
            "p_within": max(above, below), "p_t": stats.ttest_1samp(values, 0).pvalue, "t_low": interval.low, "t_high": interval.high}


def rate(rng, count, effect):
    """Shares of samples that the two tests reject. The flips of all samples share one table of signs."""
    signs = np.array(np.meshgrid(*[[1, -1]] * count)).reshape(count, -1).astype(np.float32)
    rejected = equal = 0
    for _ in range(DRAWS // 500):
        values = rng.normal(effect, 1, (500, count)).astype(np.float32)

        def share(shifted, side):
            sums = shifted @ signs
            total = shifted.sum(1, keepdims=True)
            return (sums >= total - 1e-4).mean(1) if side > 0 else (sums <= total + 1e-4).mean(1)

        rejected += (2 * np.minimum(share(values, 1), share(values, -1)) <= 0.05).sum()
        equal += (np.maximum(share(values + RATE_MARGIN, 1), share(values - RATE_MARGIN, -1)) <= 0.05).sum()
    return {"n": count, "effect": effect, "rejected": rejected / DRAWS, "equal": equal / DRAWS}


def main():
    rng = np.random.default_rng(0)
    families = [np.round(rng.uniform(0, 0.1, count), 5) for count in (1, 3, 6)]
    power = TTestPower()
    effects = [{"n": n, "alpha": alpha, "power": share, "effect": float(power.solve_power(nobs=n, alpha=alpha, power=share, alternative="larger"))}
               for n in (6, 8, 12, 20) for alpha in (0.025, 0.005) for share in (0.8, 0.9)]
    golden = {"versions": {"numpy": np.__version__, "scipy": scipy.__version__, "statsmodels": statsmodels.__version__},
              "samples": [sample(rng, count) for count in (6, 7, 8, 12) for _ in range(4)],
              "holm": [{"p": p.tolist(), "adjusted": multipletests(p, method="holm")[1].tolist()} for p in families],
              "effects": effects, "rates": [rate(rng, n, effect) for n in (6, 8, 12) for effect in (0.0, 0.5, 1.0, 2.0)]}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(golden, indent=1, default=float) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
