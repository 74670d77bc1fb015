#include "learner/objective/policy_loss.h"

#include <cmath>

namespace qrl::learner {

namespace {

std::span<const double> doubles(const torch::Tensor& values) {
  return {values.data_ptr<double>(), static_cast<std::size_t>(values.numel())};
}

double total(const torch::Tensor& values) { return values.sum().item<double>(); }

torch::Tensor on_side(const Surrogate& surrogate, ClipSide side) {
  return (surrogate.side == static_cast<int>(side)).to(torch::kFloat64);
}

ObjectiveTokens objective_tokens(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows,
                                 const TargetScores& scores, bool with_reference) {
  const auto read = [&](const std::vector<float>& per_token, const char* name) {
    return torch::tensor(counted(per_token, rows, batch.tokens.size(), name), torch::kFloat64);
  };
  ObjectiveTokens tokens{scores.log_probs_M.to(torch::kFloat64),
                         scores.entropy_M.to(torch::kFloat64),
                         {},
                         read(batch.sampler_logprobs, "sampler_logprobs"),
                         {},
                         read(batch.advantages, "advantages"),
                         Sequences(sequence_of_rows(batch, rows))};
  tokens.old_log_probs =
      batch.old_logprobs.empty() ? tokens.log_probs.detach() : read(batch.old_logprobs, "old_logprobs");
  if (!batch.old_entropy.empty()) {
    tokens.old_entropy = read(batch.old_entropy, "old_entropy");
    tokens.positions = torch::tensor(positions_of(batch, rows));
  }
  if (with_reference) tokens.reference_log_probs = read(batch.reference_logprobs, "reference_logprobs");
  return tokens;
}

void add_rejections(const ObjectiveTokens& tokens, const Objective& terms, Statistics& statistics) {
  const Sequences& sequences = tokens.sequences;
  const auto num_tokens = static_cast<double>(sequences.num_tokens());
  const double num_sequences = total(sequences.lengths() > 0);
  const auto add_tokens = [&](const char* name, const torch::Tensor& left_out) {
    if (left_out.defined()) statistics.add_mean(name, total(left_out), num_tokens);
  };
  if (terms.kept.tokens.defined()) {
    const torch::Tensor rejected = terms.kept.tokens.logical_not();
    add_tokens("mismatch/rs_masked_fraction", rejected);
    statistics.add_mean("mismatch/rs_seq_masked_fraction", total(sequences.sum(rejected.to(torch::kFloat64)) > 0),
                        num_sequences);
  }
  if (terms.kept.vetoed.defined())
    statistics.add_mean("mismatch/veto_seq_fraction", total(terms.kept.vetoed), num_sequences);
  if (terms.selected.masked_sequences.defined())
    statistics.add_mean("actor/off_policy_masked_fraction", total(terms.selected.masked_sequences), num_sequences);
  add_tokens("actor/low_entropy_masked_fraction", terms.selected.low_entropy);
  add_tokens("actor/cov_masked_fraction", terms.selected.covariant);
}

void add_statistics(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Objective& terms,
                    Statistics& statistics) {
  statistics.add_share("actor/pg_loss", terms.policy.item<double>());
  if (terms.kl.defined()) statistics.add_share("actor/kl_loss", terms.kl.item<double>());
  const torch::Tensor log_probs_now = tokens.log_probs.detach(), entropy_now = tokens.entropy.detach();
  statistics.add_policy_tokens({doubles(log_probs_now), doubles(tokens.old_log_probs),
                                doubles(tokens.sampler_log_probs), doubles(entropy_now),
                                doubles(terms.weights.on_tokens)});
  const Sequences& sequences = tokens.sequences;
  const auto num_tokens = static_cast<double>(sequences.num_tokens());
  const double num_sequences = total(sequences.lengths() > 0);
  const auto add_side = [&](const char* name, ClipSide side) {
    statistics.add_mean(name, total(on_side(terms.surrogate, side)), num_tokens);
  };
  add_side("actor/pg_clipfrac_high", ClipSide::high);
  add_side("actor/pg_clipfrac_low", ClipSide::low);
  if (settings.surrogate.dual_clip) add_side("actor/pg_clipfrac_dual", ClipSide::dual);
  if (settings.is_around_sampler() && settings.is_first_update) {
    statistics.add_mean(
        "mismatch/masked_at_start_fraction",
        total(on_side(terms.surrogate, ClipSide::high)) + total(on_side(terms.surrogate, ClipSide::low)), num_tokens);
  }
  const torch::Tensor any_clipped = sequences.sum((terms.surrogate.side != 0).to(torch::kFloat64)) > 0;
  statistics.add_mean("actor/clipped_sequence_fraction", total(any_clipped), num_sequences);
  if (settings.method->level != CorrectionLevel::none) {
    statistics.add_mean(terms.weights.rejects ? "mismatch/dropped_fraction" : "mismatch/capped_fraction",
                        total(terms.weights.acted), num_tokens);
  }
  add_rejections(tokens, terms, statistics);
  const torch::Tensor negative = tokens.advantages < 0;
  constexpr double kRare = 1e-3;
  statistics.add_mean("actor/negative_rare_fraction", total(negative & (tokens.old_log_probs < std::log(kRare))),
                      total(negative));
  if (terms.truncation.defined()) {
    const torch::Tensor high = 1 + settings.surrogate.clip.high + torch::zeros_like(terms.truncation);
    const torch::Tensor freed =
        (tokens.advantages > 0) & (terms.surrogate.ratio > high) & (terms.surrogate.ratio <= high / terms.truncation);
    statistics.add_mean("acr/freed_fraction", total(freed), num_tokens);
    statistics.add_mean("acr/r_mean", total(terms.truncation), num_tokens);
    statistics.add_mean("acr/r_below_1_fraction", total(terms.truncation < 1), num_tokens);
    statistics.add_max("acr/rho_max",
                       log_ratio(tokens.old_log_probs, tokens.sampler_log_probs).exp().max().item<double>());
  }
  for (const AddStatistics add : {settings.loss->add_statistics, settings.method->add_statistics}) {
    if (add != nullptr) add(tokens, settings, terms, statistics);
  }
}

}  // namespace

torch::Tensor policy_loss(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows,
                          const TargetScores& scores, const types::GlobalCounts& counts, const LossOptions& loss,
                          Statistics& statistics) {
  const ObjectiveSettings settings = objective_settings(loss);
  const ObjectiveTokens tokens = objective_tokens(batch, rows, scores, settings.kl_loss_coef != 0);
  const Objective terms =
      objective(tokens, settings, {counts.response_tokens, counts.sequences, loss.max_response_length});
  add_statistics(tokens, settings, terms, statistics);
  if (!batch.teacher_logprobs.empty()) {
    const std::vector<double> teacher = counted(batch.teacher_logprobs, rows, batch.tokens.size(), "teacher_logprobs");
    double liked_more = 0;
    for (std::size_t i = 0; i < teacher.size(); ++i)
      liked_more += tokens.old_log_probs[static_cast<std::int64_t>(i)].item<double>() - teacher[i];
    statistics.add_mean("teacher/k1_kl", liked_more, static_cast<double>(teacher.size()));
  }
  return terms.total;
}

}  // namespace qrl::learner
