#include "learner/objective/selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "dist/gather.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

namespace {

/// Holds a token's values. They must equal the values in ObjectiveTokens bitwise, because draw_of hashes them.
struct TokenFacts {
  double log_prob, entropy, advantage;
  std::int64_t position;  // not part of the hash
};

std::uint64_t draw_of(const TokenFacts& token) {
  std::uint64_t mixed = 0;
  for (const double value : {token.log_prob, token.entropy, token.advantage}) {
    mixed += std::bit_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15ULL;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    mixed ^= mixed >> 31;
  }
  return mixed;
}

bool is_candidate(const TokenFacts& token, const TokenSelection& selection) {
  const double covariance = (token.advantage - selection.mean_advantage) * (token.log_prob - selection.mean_log_prob);
  return covariance > selection.cov_low && covariance < selection.cov_high;
}

std::vector<TokenFacts> facts_of(std::span<const types::MicroBatch* const> batches) {
  std::vector<TokenFacts> facts;
  for (const types::MicroBatch* one : batches) {
    const types::MicroBatch& batch = *one;
    const std::vector<std::int64_t> rows = counted_rows(batch);
    const std::vector<double> log_probs = counted(batch.old_logprobs, rows, batch.tokens.size(), "old_logprobs"),
                              entropy = counted(batch.old_entropy, rows, batch.tokens.size(), "old_entropy"),
                              advantages = counted(batch.advantages, rows, batch.tokens.size(), "advantages");
    const std::vector<std::int64_t> positions = positions_of(batch, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      facts.push_back({log_probs[i], entropy[i], advantages[i], positions[i]});
  }
  return facts;
}

double mean_of_sorted(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Sets the limit on draws such that Clip-Cov omits `wanted` candidates over all ranks. Candidates whose draw
/// equals the limit are omitted in order of rank and position.
void limit_draws(std::span<const TokenFacts> facts, std::size_t wanted, TokenSelection& selection,
                 dist::Collectives& world) {
  std::vector<std::uint64_t> mine;
  for (const TokenFacts& token : facts) {
    if (is_candidate(token, selection)) mine.push_back(draw_of(token));
  }
  const std::vector<std::uint64_t> draws = dist::all_gather_sorted(std::span<const std::uint64_t>(mine), world);
  if (draws.empty()) return;
  wanted = std::min(wanted, draws.size());
  const std::uint64_t limit = selection.cov_draw_limit = draws[wanted - 1];
  std::vector<std::int64_t> tied;
  for (const TokenFacts& token : facts) {
    if (draw_of(token) == limit && is_candidate(token, selection)) tied.push_back(token.position);
  }
  std::sort(tied.begin(), tied.end());
  std::int64_t left =
      static_cast<std::int64_t>(wanted) - (std::lower_bound(draws.begin(), draws.end(), limit) - draws.begin());
  const std::int64_t count = std::ssize(tied);
  const auto counts = dist::all_gather_values(std::span(&count, 1), world);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world.rank()); ++rank) left -= counts[rank].front();
  if (left > 0 && count > 0) selection.cov_last_position = tied[static_cast<std::size_t>(std::min(left, count)) - 1];
}

torch::Tensor covariant_tokens(const ObjectiveTokens& tokens, const torch::Tensor& clipped,
                               const TokenSelection& selection) {
  torch::Tensor found = torch::zeros({tokens.sequences.num_tokens()}, torch::kBool);
  const auto at = [](const torch::Tensor& values, std::int64_t t) { return values.data_ptr<double>()[t]; };
  for (std::int64_t t = 0; t < found.numel(); ++t) {
    const TokenFacts token{at(tokens.old_log_probs, t), at(tokens.old_entropy, t), at(tokens.advantages, t),
                           tokens.positions.data_ptr<std::int64_t>()[t]};
    const std::uint64_t draw = draw_of(token), limit = selection.cov_draw_limit;
    const bool is_drawn = draw < limit || (draw == limit && token.position <= selection.cov_last_position);
    found.data_ptr<bool>()[t] = is_drawn && is_candidate(token, selection);
  }
  return found & clipped.logical_not();
}

}  // namespace

bool selects_by_mini_batch(const AlgorithmOptions& algorithm) {
  return algorithm.top_entropy_quantile < 1 || algorithm.clip_cov.ratio > 0;
}

TokenSelection selection_of_mini_batch(std::span<const types::MicroBatch* const> batches,
                                       const AlgorithmOptions& algorithm, dist::Collectives& world) {
  TokenSelection selection;
  selection.is_set = true;
  const std::vector<TokenFacts> facts = facts_of(batches);
  std::vector<double> entropy, log_probs, advantages;
  for (const TokenFacts& token : facts) {
    entropy.push_back(token.entropy);
    log_probs.push_back(token.log_prob);
    advantages.push_back(token.advantage);
  }
  if (algorithm.top_entropy_quantile < 1) {
    const std::vector<double> all = dist::all_gather_sorted(std::span<const double>(entropy), world);
    const auto kept =
        static_cast<std::size_t>(std::ceil(algorithm.top_entropy_quantile * static_cast<double>(all.size())));
    selection.by_entropy = true;
    if (kept > 0) selection.entropy_floor = all[all.size() - std::min(kept, all.size())];
  }
  if (algorithm.clip_cov.ratio > 0) {
    const std::vector<double> all = dist::all_gather_sorted(std::span<const double>(log_probs), world);
    selection.mean_log_prob = mean_of_sorted(all);
    selection.mean_advantage = mean_of_sorted(dist::all_gather_sorted(std::span<const double>(advantages), world));
    selection.cov_low = algorithm.clip_cov.low;
    selection.cov_high = algorithm.clip_cov.high;
    const auto wanted =
        std::max<std::size_t>(1, static_cast<std::size_t>(algorithm.clip_cov.ratio * static_cast<double>(all.size())));
    selection.by_covariance = true;
    limit_draws(facts, wanted, selection, world);
  }
  return selection;
}

Selected select_tokens(const ObjectiveTokens& tokens, const torch::Tensor& clipped, const SelectionSettings& settings) {
  Selected selected;
  const auto leave_out = [&](const torch::Tensor& tokens_M) {
    const torch::Tensor kept = tokens_M.logical_not();
    selected.tokens = selected.tokens.defined() ? selected.tokens & kept : kept;
  };
  if (settings.off_policy_mask_threshold) {
    const Sequences& sequences = tokens.sequences;
    const torch::Tensor drift_S = sequences.mean(log_ratio(tokens.sampler_log_probs, tokens.log_probs.detach()));
    const torch::Tensor negative_S = sequences.sum((tokens.advantages < 0).to(torch::kFloat64)) > 0;
    selected.masked_sequences = negative_S & (drift_S > *settings.off_policy_mask_threshold);
    leave_out(sequences.on_tokens(selected.masked_sequences) & (tokens.advantages < 0));
  }
  const TokenSelection& of_batch = settings.of_batch;
  if (!of_batch.is_set) return selected;
  if (of_batch.by_entropy) {
    selected.low_entropy = tokens.old_entropy < of_batch.entropy_floor;
    leave_out(selected.low_entropy);
  }
  if (of_batch.by_covariance) {
    selected.covariant = covariant_tokens(tokens, clipped, of_batch);
    leave_out(selected.covariant);
  }
  return selected;
}

namespace {

torch::Tensor statistic_of_tokens(const torch::Tensor& log_rho, RsStat stat) {
  switch (stat) {
    case RsStat::k1:
      break;
    case RsStat::k2:
      return log_rho * log_rho / 2;
    case RsStat::k3:
      return torch::expm1(log_rho) - log_rho;
  }
  return log_rho;
}

torch::Tensor statistic(const torch::Tensor& log_rho, const Sequences& sequences, const RejectionSettings& settings) {
  const torch::Tensor of_tokens = statistic_of_tokens(log_rho, settings.stat);
  switch (settings.level) {
    case RsLevel::none:
      return {};
    case RsLevel::token:
      return of_tokens;
    case RsLevel::seq_sum: {
      const torch::Tensor sum = sequences.sum(of_tokens);
      return sequences.on_tokens(settings.stat == RsStat::k1 ? sum.clamp(-kMaxLogRatio, kMaxLogRatio) : sum);
    }
    case RsLevel::seq_mean:
      return sequences.on_tokens(sequences.mean(of_tokens));
    case RsLevel::seq_max:
      break;
  }
  return sequences.on_tokens(sequences.largest(of_tokens));
}

}  // namespace

Kept kept_tokens(const torch::Tensor& log_rho, const Sequences& sequences, const RejectionSettings& settings) {
  Kept kept;
  if (const torch::Tensor of_tokens = statistic(log_rho, sequences, settings); of_tokens.defined()) {
    const torch::Tensor value = settings.stat == RsStat::k1 ? of_tokens.exp() : of_tokens;
    kept.tokens = value <= settings.threshold;
    if (settings.stat == RsStat::k1) kept.tokens = kept.tokens & (value >= settings.threshold_low);
  }
  if (settings.veto > 0) {
    kept.vetoed = sequences.sum((log_rho.exp() < settings.veto).to(torch::kFloat64)) > 0;
    const torch::Tensor spared = sequences.on_tokens(kept.vetoed).logical_not();
    kept.tokens = kept.tokens.defined() ? kept.tokens & spared : spared;
  }
  return kept;
}

}  // namespace qrl::learner
