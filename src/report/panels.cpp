#include "report/panels.h"

#include <algorithm>
#include <iterator>

namespace qrl::report {

namespace {

constexpr const char* kLearns = "Does it learn?";
constexpr const char* kExplores = "Does it explore?";
constexpr const char* kGap = "Does the sampler match the learner?";
constexpr const char* kTime = "Where does time go?";
constexpr const char* kColdStart = "Cold start";

std::vector<Panel> panels_of_learning() {
  return {
      {kLearns, "training reward", "score", {"critic/rewards/mean", "critic/score/mean"}},
      {kLearns, "held-out, mean of the samples", "share", {"val/*/mean@*"}},
      {kLearns, "held-out, mean score", "score", {"val/*/score/mean@*"}},
      {kLearns, "held-out, components of the score", "score", {"val/*/score/*/mean@*"}},
      {kLearns, "held-out, majority", "share", {"val/*/maj@*"}},
      {kLearns,
       "verdicts",
       "share",
       {"reward/correct_fraction", "reward/wrong_fraction", "reward/no_answer_fraction",
        "reward/verifier_error_fraction"}},
      {kLearns,
       "reward components",
       "score",
       {"reward/accuracy/mean", "reward/format/mean", "reward/partial/mean", "reward/overlong/mean"}},
      {kLearns,
       "response length",
       "tokens",
       {"response_length/mean", "response_length/min", "response_length/max", "val/*/response_length/mean"}},
      {kLearns,
       "responses truncated at the limit",
       "share",
       {"response_length/clip_ratio", "val/*/truncated_fraction"}},
      {kLearns, "gradient norm", "norm", {"actor/grad_norm"}, true},
      {kLearns, "policy loss", "loss", {"actor/pg_loss"}},
      {kLearns, "learning rate", "lr", {"actor/lr"}},
      {kExplores, "entropy", "nats", {"actor/entropy"}},
      {kExplores, "held-out, at least one of k correct", "share", {"val/*/pass@*"}},
      {kExplores, "flat groups", "share", {"data/flat_group_fraction"}},
      {kExplores, "groups sampled", "groups", {"data/drawn_groups", "data/trained_groups", "data/surplus_groups"}},
      {kExplores, "repeated 4-grams", "share", {"response/seq_rep_4"}},
      {kExplores, "advantages", "A", {"critic/advantages/std", "critic/advantages/min", "critic/advantages/max"}},
      {kExplores,
       "clipped tokens",
       "share",
       {"actor/pg_clipfrac_high", "actor/pg_clipfrac_low", "actor/pg_clipfrac_negative_high", "actor/pg_clipfrac_dual",
        "actor/clipped_sequence_fraction"}},
      {kExplores, "policy KL", "nats", {"actor/ppo_kl", "actor/kl_loss"}},
  };
}

std::vector<Panel> panels_of_gap_and_time() {
  return {
      {kGap, "k3 KL", "nats", {"mismatch/k3_kl", "mismatch/probe_k3_kl"}, true},
      {kGap, "k1 KL", "nats", {"mismatch/k1_kl", "mismatch/probe_k1_kl"}},
      {kGap,
       "ratio, mean and percentiles",
       "ρ",
       {"mismatch/rho_mean", "mismatch/rho_p01", "mismatch/rho_p05", "mismatch/rho_p50", "mismatch/rho_p95",
        "mismatch/rho_p99"}},
      {kGap, "ratio, extremes", "ρ", {"mismatch/rho_min", "mismatch/rho_max"}, true},
      {kGap, "effective sample size", "share", {"mismatch/ess_ratio", "mismatch/ess_ratio_weights"}},
      {kGap,
       "corrected tokens",
       "share",
       {"mismatch/capped_fraction", "mismatch/dropped_fraction", "mismatch/masked_at_start_fraction"}},
      {kGap, "log-prob difference", "nats", {"mismatch/logp_abs_diff_mean", "mismatch/probe_logp_abs_diff_mean"}},
      {kGap, "quantized values that updates changed", "share", {"quant/changed_fraction"}, true},
      {kGap, "AIS", "share", {"ais/alpha", "ais/alpha_ess", "ais/alpha_mis", "ais/alpha_var"}},
      {kGap, "ACR", "ratio", {"acr/r_mean", "acr/r_below_1_fraction"}},
      {kGap, "TBPO", "share", {"tbpo/*_fraction"}},
      {kGap, "differing routes", "share", {"moe/route_flip_fraction", "moe/token_flip_fraction"}},
      {kGap, "highest expert load", "of the mean", {"moe/expert_load_max"}},
      {kTime,
       "time per step",
       "s",
       {"timing_s/step", "timing_s/gen", "timing_s/reward", "timing_s/old_log_prob", "timing_s/ref",
        "timing_s/update_actor", "timing_s/publish", "timing_s/gap_probe"}},
      {kTime, "time outside steps", "s", {"timing_s/testing", "timing_s/save_checkpoint"}},
      {kTime, "speed", "tokens/s", {"perf/tokens_per_s", "perf/learner_tokens_per_s"}, true},
      {kTime, "learner's share of the GEMM ceiling", "share", {"perf/mfu/actor"}},
      {kTime, "peak memory", "GiB", {"perf/peak_memory_gib"}},
      {kTime, "peak KV pages", "pages", {"perf/kv_peak_pages"}},
      {kTime, "preemptions and prefix hits", "count", {"perf/preemptions", "perf/prefix_hit_tokens"}},
      {kColdStart, "cold-start loss", "nats", {"actor/sft_loss"}, false, true},
      {kColdStart, "cold-start gradient norm", "norm", {"actor/grad_norm"}, true, true},
  };
}

const std::vector<Panel>& all_panels() {
  static const std::vector<Panel> all = [] {
    std::vector<Panel> both = panels_of_learning();
    std::ranges::move(panels_of_gap_and_time(), std::back_inserter(both));
    return both;
  }();
  return all;
}

bool matches(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (;; name.remove_prefix(1)) {
    if (matches(name, pattern)) return true;
    if (name.empty() || name.front() == '/') return false;
  }
}

}  // namespace

std::span<const Panel> panels() { return all_panels(); }

bool is_shown(std::string_view metric, bool of_cold_start) {
  return std::any_of(panels().begin(), panels().end(), [&](const Panel& panel) {
    return panel.of_cold_start == of_cold_start &&
           std::ranges::any_of(panel.metrics, [&](std::string_view pattern) { return matches(metric, pattern); });
  });
}

}  // namespace qrl::report
