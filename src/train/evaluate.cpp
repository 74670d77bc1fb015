#include "train/evaluate.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "train/signals.h"
#include "train/step_metrics.h"

namespace qrl::train {

namespace {

/// Evaluation samples with a step of its own that no training step has.
constexpr std::uint32_t kEvalStep = 0xffffffffU;

}  // namespace

double pass_at_k(std::int64_t n, std::int64_t c, std::int64_t k) {
  if (n - c < k) return 1.0;
  double none_right = 1.0;
  for (std::int64_t i = n - c + 1; i <= n; ++i) none_right *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - none_right;
}

std::string score_name(const std::string& data_source, const config::EvalRecipe& recipe) {
  return "val/" + data_source + "/mean@" + std::to_string(recipe.n);
}

bool majority_is_right(std::span<const rollout::Rollout> samples, const tasks::Verifier& verifier) {
  constexpr std::size_t kMaxAsked = 64;
  struct Candidate {
    bool correct = false;
    std::string_view text;  // of its first sample
    std::int64_t votes = 0;
  };
  std::vector<Candidate> candidates;                // in the order of their first samples
  std::map<std::string_view, std::size_t> of_text;  // wrong answers
  const auto candidate_of = [&](const reward::Verdict& verdict) -> std::size_t {
    const bool correct = verdict.outcome == reward::Outcome::correct;
    if (const auto known = of_text.find(verdict.extracted); !correct && known != of_text.end()) return known->second;
    std::size_t num_asked = 0;
    for (std::size_t k = 0; k < candidates.size() && num_asked < kMaxAsked; ++k) {
      if (candidates[k].correct != correct) continue;
      if (correct || verifier.same_answer(candidates[k].text, verdict.extracted)) return k;
      ++num_asked;
    }
    candidates.push_back({correct, verdict.extracted});
    return candidates.size() - 1;
  };
  for (const rollout::Rollout& sample : samples) {
    if (sample.verdict.outcome == reward::Outcome::no_answer) continue;
    const std::size_t k = candidate_of(sample.verdict);
    if (!candidates[k].correct) of_text.emplace(sample.verdict.extracted, k);
    ++candidates[k].votes;
  }
  const auto best = std::max_element(candidates.begin(), candidates.end(),
                                     [](const Candidate& x, const Candidate& y) { return x.votes < y.votes; });
  return best != candidates.end() && best->correct;
}

std::string metrics_table(std::span<const PromptSet> sets, const Metrics& metrics) {
  // Columns are those of the first set; every set has the same.
  std::vector<std::string> columns;
  const auto prefix_of = [](const PromptSet& set) { return "val/" + set.data_source + "/"; };
  const std::string first = prefix_of(sets.front());
  for (const auto& [name, value] : metrics) {
    if (name.starts_with(first)) columns.push_back(name.substr(first.size()));
  }
  std::vector<std::vector<std::string>> rows = {{"data source", "prompts"}};
  rows[0].insert(rows[0].end(), columns.begin(), columns.end());
  for (const PromptSet& set : sets) {
    rows.push_back({set.data_source, std::to_string(set.prompts.size())});
    for (const std::string& column : columns) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%.4g", metrics.at(prefix_of(set) + column));
      rows.back().emplace_back(text.data());
    }
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += (i > 0 ? "  " : "") + row[i] + (i + 1 < row.size() ? std::string(widths[i] - row[i].size(), ' ') : "");
    table += line + "\n";
  }
  return table;
}

std::vector<rollout::Rollout> collect_or_abandon(types::TextSource& source,
                                                 std::span<const rollout::PromptRequest> prompts, std::int32_t n,
                                                 const types::SamplingParams& params, types::SampleKey key,
                                                 dist::Collectives& world) {
  std::vector<rollout::Rollout> rollouts;
  bool abandoned = false;
  try {
    rollouts = rollout::collect(source, prompts, n, params, key);
  } catch (const Abandoned&) {
    abandoned = true;
  }
  // A rank that had sampled its share already goes with the others.
  if (world.any(abandoned)) throw Abandoned{};
  return rollouts;
}

Metrics evaluate(types::TextSource& source, std::span<const PromptSet> sets, const config::Recipe& recipe,
                 const types::SamplingParams& params, const data::Tokenizer& tokenizer, const tasks::Verifier& verifier,
                 dist::Collectives& world, std::string* responses, std::int64_t max_prompts) {
  const auto n = static_cast<std::int32_t>(recipe.eval.n);
  Metrics metrics;
  for (const PromptSet& set : sets) {
    std::vector<rollout::PromptRequest> mine;
    std::vector<std::int64_t> places;
    for (auto i = static_cast<std::size_t>(world.rank()); i < set.prompts.size();
         i += static_cast<std::size_t>(world.size())) {
      mine.push_back({&set.prompts[i]});
      places.push_back(static_cast<std::int64_t>(i));
    }
    auto rollouts = collect_or_abandon(source, mine, n, params, {recipe.trainer.seed, kEvalStep}, world);
    rollout::judge(rollouts, verifier, recipe.reward, tokenizer);
    if (responses != nullptr) {
      const auto shown =
          static_cast<std::size_t>(std::lower_bound(places.begin(), places.end(), max_prompts) - places.begin());
      *responses += rollout_rows(std::span(rollouts).first(shown * static_cast<std::size_t>(n)), n,
                                 std::span(places).first(shown), std::nullopt, recipe.reward, world);
    }

    // right[c]: prompts with c right samples; then response tokens, truncated samples and right majorities: exact
    // integers, so that the sums over ranks do not depend on their number.
    std::vector<std::int64_t> sums(static_cast<std::size_t>(n) + 4, 0);
    for (std::size_t first = 0; first < rollouts.size(); first += static_cast<std::size_t>(n)) {
      std::size_t right = 0;
      for (std::size_t i = first; i < first + static_cast<std::size_t>(n); ++i) {
        right += rollouts[i].verdict.outcome == reward::Outcome::correct ? 1 : 0;
        sums[static_cast<std::size_t>(n) + 1] += static_cast<std::int64_t>(rollouts[i].completion.tokens.size());
        sums[static_cast<std::size_t>(n) + 2] += rollouts[i].completion.stop == types::StopReason::length ? 1 : 0;
      }
      ++sums[right];
      const bool majority =
          majority_is_right(std::span(rollouts).subspan(first, static_cast<std::size_t>(n)), verifier);
      sums[static_cast<std::size_t>(n) + 3] += majority ? 1 : 0;
    }
    world.all_reduce_sum(std::span(sums));

    const auto num_prompts = static_cast<double>(set.prompts.size());
    const std::string prefix = "val/" + set.data_source + "/";
    double mean = 0;
    for (std::int64_t c = 0; c <= n; ++c) mean += static_cast<double>(sums[static_cast<std::size_t>(c)] * c);
    metrics[score_name(set.data_source, recipe.eval)] = mean / (num_prompts * n);
    for (std::int64_t k = 2; k < 2 * n; k *= 2) {
      const std::int64_t capped = std::min<std::int64_t>(k, n);
      double pass = 0;
      for (std::int64_t c = 0; c <= n; ++c)
        pass += static_cast<double>(sums[static_cast<std::size_t>(c)]) * pass_at_k(n, c, capped);
      metrics[prefix + "pass@" + std::to_string(capped)] = pass / num_prompts;
    }
    metrics[prefix + "maj@" + std::to_string(n)] =
        static_cast<double>(sums[static_cast<std::size_t>(n) + 3]) / num_prompts;
    metrics[prefix + "response_length/mean"] =
        static_cast<double>(sums[static_cast<std::size_t>(n) + 1]) / (num_prompts * n);
    metrics[prefix + "truncated_fraction"] =
        static_cast<double>(sums[static_cast<std::size_t>(n) + 2]) / (num_prompts * n);
  }
  return metrics;
}

}  // namespace qrl::train
