// Owns TBPO's loss and correction (QaRL, §3.2): bands on a sequence's ratios π_θ/π_old and π_old/μ.
#include "learner/objective/corrections.h"
#include "learner/objective/objective.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/statistics.h"

namespace qrl::learner {

namespace {

const config::NumberParam kBandLow{"algorithm.tbpo.seq_clip_ratio_low", config::kInside0To1, 3e-4,
                                   "sequence ratios are clipped at 1 - this where the advantage is 0 or more"};
const config::NumberParam kBandHigh{"algorithm.tbpo.seq_clip_ratio_high", config::kPositive, 4e-4,
                                    "sequence ratios are clipped at 1 + this where the advantage is 0 or more"};
const config::NumberParam kNegativeLow{"algorithm.tbpo.neg_seq_clip_ratio_low", config::kInside0To1, 3e-4,
                                       "sequence ratios are clipped at 1 - this where the advantage is negative", true};
const config::NumberParam kNegativeHigh{"algorithm.tbpo.neg_seq_clip_ratio_high", config::kPositive, 7e-4,
                                        "sequence ratios are clipped at 1 + this where the advantage is negative",
                                        true};
const config::NumberParam kBandCap{"algorithm.tbpo.seq_tis_imp_ratio_cap", config::kAtLeast1, 2,
                                   "C, where weights lie in [1/C, C]"};
const config::WordParam<bool> kDrops{"algorithm.tbpo.mismatch_action",
                                     {{"clip", false}, {"drop", true}},
                                     "a weight outside [1/C, C]: clip it, or drop its sequence (weight 0)"};

/// Computes the surrogate from r_i = s_i (sequence_ratio). A ≥ 0: min(r_i·A, clip(r_i, 1 − ε_l, 1 + ε_h)·A). A < 0:
/// clip(r_i, 1 − ε⁻_l, 1 + ε⁻_h)·A, whose gradient is 0 on both sides of the band.
Surrogate trust_band_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor ratio = sequence_ratio(input, false), now = ratio.detach();
  const torch::Tensor is_negative = advantages < 0;
  const auto bound = [&](double positive, double negative) {
    return torch::where(is_negative, torch::full_like(now, negative), torch::full_like(now, positive));
  };
  const torch::Tensor low = bound(1 - settings.clip.low, 1 - settings.negative_clip.low);
  const torch::Tensor high = bound(1 + settings.clip.high, 1 + settings.negative_clip.high);
  Surrogate surrogate;
  surrogate.objective =
      torch::where(is_negative, ratio.clamp(low, high) * advantages, clipped_objective(ratio, advantages, low, high));
  surrogate.side = clip_sides(now, advantages, low, high);
  surrogate.side.masked_fill_(is_negative & (now > high), static_cast<int>(ClipSide::negative_high));
  surrogate.ratio = now;
  return surrogate;
}

void read_bands(const config::ParamValues& own, SurrogateSettings& settings) {
  settings.clip = {own.of(kBandLow), own.of(kBandHigh)};
  settings.negative_clip = {own.of(kNegativeLow), own.of(kNegativeHigh)};
}

double total_of(const torch::Tensor& values) { return values.sum().item<double>(); }

torch::Tensor on_side(const Objective& terms, ClipSide side) {
  return (terms.surrogate.side == static_cast<int>(side)).to(torch::kFloat64);
}

static_assert(true);
void add_band_sides(const ObjectiveTokens& tokens, const ObjectiveSettings&, const Objective& terms,
                    Statistics& statistics) {
  statistics.add_mean("actor/pg_clipfrac_negative_high", total_of(on_side(terms, ClipSide::negative_high)),
                      static_cast<double>(tokens.sequences.num_tokens()));
  const double count = total_of(tokens.sequences.lengths() > 0);
  for (const auto& [name, side] : {std::pair<const char*, ClipSide>{"tbpo/ratio_above_fraction", ClipSide::high},
                                   {"tbpo/ratio_negative_below_fraction", ClipSide::low},
                                   {"tbpo/ratio_negative_above_fraction", ClipSide::negative_high}}) {
    statistics.add_mean(name, total_of(tokens.sequences.mean(on_side(terms, side))), count);
  }
}

/// Computes w_i = exp(mean_t log ρ_t), then clip(w_i, 1/C, C) (QaRL §3.2). With `drop`, the weight is w_i inside the
/// band and 0 outside.
CorrectionWeights trust_band_weights(const torch::Tensor& log_rho, const Sequences& sequences,
                                     const CorrectionSettings& settings) {
  const double cap = settings.threshold;
  const torch::Tensor w_S = sequences.mean(log_rho).exp();
  const torch::Tensor outside_S = (w_S < 1 / cap) | (w_S > cap);
  const torch::Tensor bounded_S = settings.drop ? w_S.masked_fill(outside_S, 0) : w_S.clamp(1 / cap, cap);
  return {sequences.on_tokens(bounded_S), sequences.on_tokens(outside_S), w_S, settings.drop};
}

void read_band_weights(const config::ParamValues& own, CorrectionSettings& settings) {
  settings.threshold = own.of(kBandCap);
  settings.drop = own.of(kDrops);
}

void add_band_weights(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Objective& terms,
                      Statistics& statistics) {
  const torch::Tensor present = tokens.sequences.lengths() > 0;
  const double count = total_of(present), cap = settings.correction.threshold;
  const torch::Tensor w = terms.weights.sequence_w.masked_select(present);
  statistics.add_mean("tbpo/w_mean", total_of(w), count);
  statistics.add_max("tbpo/w_max", w.max().item<double>());
  statistics.add_min("tbpo/w_min", w.min().item<double>());
  statistics.add_mean("tbpo/w_below_fraction", total_of(w < 1 / cap), count);
  statistics.add_mean("tbpo/w_above_fraction", total_of(w > cap), count);
}

std::vector<config::Constraint> constraints_of_bands() {
  std::vector<config::Constraint> constraints = constraints_of_sequence_ratios();
  constexpr const char* kBands = "set algorithm.tbpo.seq_clip_ratio_… and neg_seq_clip_ratio_… instead";
  constraints.push_back({"algorithm.clip_ratio_low", {"null"}, kBands});
  constraints.push_back({"algorithm.clip_ratio_high", {"null"}, kBands});
  constraints.push_back({"rollout_correction.method",
                         {"tbpo", "none"},
                         "this loss weights whole sequences, only by the geometric mean of their ratios: set tbpo, or "
                         "choose another loss"});
  constexpr const char* kWhole = "this loss works on whole sequences: single tokens cannot be left out";
  constraints.push_back({"algorithm.teacher.path", {"null"}, "its bands depend on the sign of a response's advantage"});
  constraints.push_back({"rollout_correction.rs", {"none", "seq_sum", "seq_mean", "seq_max"}, kWhole});
  constraints.push_back({"algorithm.top_entropy_quantile", {"1.0"}, kWhole});
  constraints.push_back({"algorithm.clip_cov.ratio", {"0.0"}, kWhole});
  return constraints;
}

}  // namespace

extern const PolicyLoss tbpo_loss;
const PolicyLoss tbpo_loss{{.word = "tbpo",
                            .what = "sequence ratios within bands that depend on the sign of the advantage",
                            .paper = "QaRL, §3.2",
                            .defaults = {{"algorithm.clip_ratio_c", "0"},
                                         {"algorithm.loss_agg_mode", "seq-mean-token-mean"},
                                         {"algorithm.norm_adv_by_std", "true"}},
                            .constraints = constraints_of_bands(),
                            .params = {kBandLow, kBandHigh, kNegativeLow, kNegativeHigh},
                            .needs_updates = true},
                           trust_band_surrogate,
                           read_bands,
                           add_band_sides};

extern const Correction tbpo_correction;
const Correction tbpo_correction{
    {.word = "tbpo",
     .what = "the geometric mean of a sequence's ratios, within a band",
     .paper = "QaRL, §3.2",
     .constraints = constraints_of_correction("set its cap with algorithm.tbpo.seq_tis_imp_ratio_cap instead", false),
     .params = {kBandCap, kDrops}},
    CorrectionLevel::sequence,
    trust_band_weights,
    read_band_weights,
    add_band_weights};

}  // namespace qrl::learner
