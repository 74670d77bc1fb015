"""Run folders made for tests: every metric that a run writes, without a training. A library, not a command."""
import json
import math
import random

NAMES = ("critic/rewards/mean critic/score/mean critic/advantages/std critic/advantages/min critic/advantages/max "
         "reward/correct_fraction reward/wrong_fraction reward/no_answer_fraction reward/verifier_error_fraction "
         "reward/accuracy/mean reward/format/mean reward/partial/mean response_length/mean response_length/min "
         "response_length/max response_length/clip_ratio prompt_length/mean response/seq_rep_4 data/flat_group_fraction "
         "actor/pg_loss actor/entropy actor/ppo_kl actor/grad_norm actor/lr actor/pg_clipfrac_high actor/pg_clipfrac_low "
         "actor/clipped_sequence_fraction mismatch/k1_kl mismatch/k3_kl mismatch/logp_abs_diff_mean mismatch/rho_mean "
         "mismatch/rho_min mismatch/rho_max mismatch/rho_p01 mismatch/rho_p05 mismatch/rho_p50 mismatch/rho_p95 "
         "mismatch/rho_p99 mismatch/ess_ratio mismatch/ess_ratio_weights mismatch/capped_fraction mismatch/probe_k1_kl "
         "mismatch/probe_k3_kl mismatch/probe_logp_abs_diff_mean perf/tokens_per_s perf/learner_tokens_per_s perf/mfu/actor "
         "perf/kv_peak_pages perf/preemptions perf/prefix_hit_tokens perf/peak_memory_gib timing_s/gen timing_s/reward "
         "timing_s/update_actor timing_s/publish timing_s/gap_probe timing_s/save_checkpoint timing_s/step "
         "training/policy_version").split()
CONFIG = """\
mode: null                      # default
optim:
  lr: 5.0e-4                    # countdown_quickstart.yaml:21
trainer:
  total_training_steps: {steps}  # --set
  seed: {seed}                  # default
"""


def rows(steps, seed, nan_share=0.0):
    """Rows of steps 0 to `steps`; a share of the values is null."""
    draw = random.Random(seed)
    out = []
    for step in range(steps + 1):
        row = {"step": step}
        if step > 0:
            rise = 0.3 + 0.3 * step / steps
            row |= {name: round(rise * (1 + 0.2 * draw.random()), 9) for name in NAMES}
            row["mismatch/k3_kl"] = 2e-4 * (1 + draw.random())
            row["reward/verifier_error_fraction"] = 0.0
            row["response_length/clip_ratio"] = 0.1 + 0.1 * draw.random()
        if step % 20 == 0:
            row |= {f"val/countdown/{name}": 0.25 + 0.3 * step / max(steps, 1) for name in ("mean@8", "maj@8", "pass@2", "truncated_fraction")}
        for name in [name for name in row if name != "step" and draw.random() < nan_share]:
            row[name] = None
        row["timing_s/unix"] = 1.8e9 + 1.5 * step
        out.append(row)
    return out


def rollout_rows(step, prompts=4, samples=4, response="{step}: <think>3 + 4 = 7</think> (3 + 4) * 5"):
    return [{"step": step, "prompt_id": prompt, "sample": sample, "data_source": "countdown", "prompt": "make 35 of 3, 4, 5",
             "response": response.replace("{step}", str(step)), "ground_truth": '{"numbers":[3,4,5],"target":35}', "score": float(sample % 2),
             "reward": float(sample % 2), "advantage": sample - 1.5, "score_parts": {"accuracy": float(sample % 2), "format": 0.0},
             "reason": "right" if sample % 2 else "wrong value", "extracted": "(3 + 4) * 5", "response_tokens": 21, "stop": "eos", "version": step}
            for prompt in range(prompts) for sample in range(samples)]


def write_lines(file, lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def make_run(folder, steps=60, seed=0, nan_share=0.0, rollouts=True, response=None):
    """A run folder with rows, rollouts, held-out answers, a recipe and a session."""
    folder.mkdir(parents=True)
    write_lines(folder / "metrics.jsonl", rows(steps, seed, nan_share))
    write_lines(folder / "sft_metrics.jsonl", [{"step": step, "actor/sft_loss": math.exp(-step / 20), "actor/grad_norm": 1.0, "timing_s/unix": 1.7e9 + step}
                                               for step in range(1, 41)])
    (folder / "config.yaml").write_text(CONFIG.format(steps=steps, seed=seed), encoding="utf-8")
    write_lines(folder / "sessions.jsonl", [{"unix": 1.8e9, "host": "here", "processor": "a processor", "isa": "avx2", "program": "qrl-train 0.2.0",
                                             "ranks": 1, "threads": 2, "first_step": 1, "ended": "done", "ended_unix": 1.8e9 + 90, "last_step": steps}])
    if rollouts:
        options = {} if response is None else {"response": response}
        for step in range(1, steps + 1, max(1, steps // 60)):
            write_lines(folder / f"rollouts/step_{step}.jsonl", rollout_rows(step, **options))
        for step in (0, steps):
            write_lines(folder / f"validation/step_{step}.jsonl", rollout_rows(step))
    return folder
