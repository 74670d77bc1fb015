#!/usr/bin/env python3
"""TRL's own loss on the tensors of tests/data/golden/objective.json: values and gradients side by side.

Runs GRPOTrainer._compute_loss of the installed TRL (no model: its log-probs are given) for every case that TRL can express.
Compares with the values that numpy computed and the C++ test reproduces. Exits 1 when a case disagrees that is not one of the
differences of definition listed below (docs/reference/algorithms.md explains them).

    ~/.cache/qrl-peers/hf/bin/python scripts/golden/check_trl.py
"""
import collections
import json
import math
import pathlib
import sys
import types

import torch
import trl
from trl.trainer.grpo_trainer import GRPOTrainer

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "objective.json"
# (our loss, aggregation) as TRL's (loss_type, importance_sampling_level).
LOSS_TYPES = {
    ("grpo", "seq-mean-token-mean"): ("grpo", "token"),
    ("grpo", "token-mean"): ("bnpo", "token"),
    ("dr_grpo", "seq-mean-token-sum-norm"): ("dr_grpo", "token"),
    ("dapo", "token-mean"): ("dapo", "token"),
    ("gspo", "seq-mean-token-mean"): ("grpo", "sequence"),
}
# TRL's vllm_importance_sampling_mode for our corrections.
MODES = {"none": None, "tis": "token_truncate", "icepop": "token_mask", "mis_prod": "sequence_mask"}


def padded(batch, name, sequences, width, fill=0.0):
    rows = torch.full((len(sequences), width), fill, dtype=torch.float64)
    at = collections.Counter()
    for sequence, value in zip(batch["sequence"], batch[name]):
        rows[sequences.index(sequence), at[sequence]] = float(value)
        at[sequence] += 1
    return rows


def importance_ratio(case, difference, mask):
    """As GRPOTrainer._generate_and_score_completions computes it before the loss."""
    mode = MODES[case["correction"]]
    if mode is None:
        return torch.ones_like(difference)
    total = (difference * mask).sum(-1, keepdim=True) if mode == "sequence_mask" else difference * mask
    ratio = torch.exp(total)
    if mode == "token_truncate":
        return ratio.clamp(max=case["threshold"])
    return ratio.masked_fill((ratio < case["threshold_low"]) | (ratio > case["threshold"]), 0.0)


class StandIn:
    """What _compute_loss reads of its trainer."""

    def __init__(self, case, log_probs, width):
        self.loss_type, self.importance_sampling_level = LOSS_TYPES[case["loss"], case["agg"]]
        self.args = types.SimpleNamespace(delta=case["dual_clip"], use_bias_correction_kl=False,
                                          steps_per_generation=1)
        self.epsilon_low, self.epsilon_high = case["clip_low"], case["clip_high"]
        self.beta, self.entropy_coef = case["kl_coef"], case["entropy_coef"]
        self._entropy_bonus_enabled, self.use_adaptive_entropy = case["entropy_coef"] != 0, False
        self.top_entropy_quantile, self.off_policy_mask_threshold = 1.0, None
        self.use_vllm = self.vllm_importance_sampling_correction = True
        self.aux_loss_enabled, self.current_gradient_accumulation_steps = False, 1
        self.max_completion_length = width
        self.model = types.SimpleNamespace(training=True)
        self.accelerator = types.SimpleNamespace(num_processes=1, gather=lambda x: x, gather_for_metrics=lambda x: x,
                                                 reduce=lambda x, reduction: x, sync_gradients=True)
        self._metrics = {"train": collections.defaultdict(list)}
        self._log_probs, self.entropies = log_probs, None

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        return self._log_probs, self.entropies, None


def run_trl(batch, case):
    sequences = sorted(set(batch["sequence"]))  # a sequence without tokens is left out here: see DIFFERENCES
    width = max(batch["sequence"].count(s) for s in sequences)
    read = lambda name: padded(batch, name, sequences, width)
    ones = dict(batch, ones=[1.0] * len(batch["sequence"]))
    mask = padded(ones, "ones", sequences, width)
    log_probs = read("log_probs").requires_grad_()
    trainer = StandIn(case, log_probs, batch["max_response_length"])
    trainer.entropies = read("entropy")
    inputs = {
        "prompt_ids": torch.zeros(len(sequences), 1, dtype=torch.long), "prompt_mask": torch.ones(len(sequences), 1),
        "completion_ids": torch.zeros(len(sequences), width, dtype=torch.long), "completion_mask": mask,
        "advantages": torch.tensor([batch["of_sequence"][s] for s in sequences], dtype=torch.float64),
        "old_per_token_logps": read("old"), "ref_per_token_logps": read("reference"),
        "importance_sampling_ratio": importance_ratio(case, read("old") - read("sampler"), mask),
        "num_items_in_batch": mask.sum(),
    }
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    (gradient,) = torch.autograd.grad(loss, [log_probs])
    return loss.item(), gradient[mask > 0].tolist()


def relative(got, want, floor):
    worst = 0.0
    for a, b in zip(got, want):
        difference = abs(a - b) / max(abs(b), floor)
        worst = max(worst, math.inf if math.isnan(difference) else difference)
    return worst


def known_difference(batch, case):
    """A difference of definition that keeps this case from agreeing; None where it must agree."""
    if "infinite" in batch["name"]:
        return "log-ratios are not clamped to +-20"
    if batch["num_sequences"] != len(set(batch["sequence"])):
        return "denominators are the micro-batch's"
    if case["loss"] == "gspo" and case["correction"] in ("tis", "icepop"):
        return "gspo with a weight per token: no token form"
    return "entropy: mean over tokens whatever the loss" if case["entropy_coef"] != 0 and \
        case["agg"] != "token-mean" else None


def main():
    golden = json.loads(GOLDEN.read_text())
    agreed, differs, failed = collections.Counter(), collections.Counter(), []
    worst = collections.defaultdict(float)
    for batch in golden["batches"]:
        for case in batch["cases"]:
            if (case["loss"], case["agg"]) not in LOSS_TYPES or case["correction"] not in MODES:
                continue
            if case["acr"] or case["behaviour_in_ratio"] or (case["kl_coef"] != 0 and case["kl_type"] != "k3"):
                continue
            value, gradient = run_trl(batch, case)
            want = case["expected"]
            difference = max(relative([value], [want["total"]], 1e-6), relative(gradient, want["gradient"], 1e-9))
            kind = (case["loss"], "/".join(LOSS_TYPES[case["loss"], case["agg"]]), case["correction"])
            why = known_difference(batch, case)
            if difference <= 1e-6:
                agreed[kind] += 1
                worst[kind] = max(worst[kind], difference)
            elif why:
                differs[kind[0], kind[2], why] += 1
            else:
                failed.append((batch["name"], kind, difference))
    print(f"TRL {trl.__version__}: loss, TRL's loss_type/level, correction: cases that agree, worst relative difference")
    for kind in sorted(agreed):
        print(f"  {kind[0]:8} {kind[1]:16} {kind[2]:9} {agreed[kind]:3}  {worst[kind]:.0e}")
    print("cases that differ by definition (docs/reference/algorithms.md)")
    for (loss, correction, why), count in sorted(differs.items()):
        print(f"  {loss:8} {correction:9} {count:3}  {why}")
    for name, kind, difference in failed:
        print(f"DISAGREES: {name}: {kind}: {difference:.1e}")
    sys.exit(1 if failed or not agreed else 0)


if __name__ == "__main__":
    main()
