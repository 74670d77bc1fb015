#include "train/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "dist/gather.h"
#include "report/measures.h"
#include "report/rows.h"
#include "train/metrics/held_out_names.h"
#include "train/metrics/progress.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/prompts/text_options.h"
#include "train/signals.h"

namespace qrl::train {

namespace {

/// Step in the random key of evaluation samples. Training never reaches this step.
constexpr std::uint32_t kEvalStep = 0xffffffffU;

}  // namespace

double pass_at_k(std::int64_t n, std::int64_t c, std::int64_t k) {
  if (n - c < k) return 1.0;
  double none_right = 1.0;
  for (std::int64_t i = n - c + 1; i <= n; ++i) none_right *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - none_right;
}

bool majority_is_right(std::span<const rollout::Rollout> samples, const tasks::Verifier& verifier) {
  constexpr std::size_t kMaxAsked = 64;
  struct Candidate {
    bool correct = false;
    std::string_view text;
    std::int64_t votes = 0;
  };
  std::vector<Candidate> candidates;  // distinct answers, in order of first appearance
  std::map<std::string_view, std::size_t> of_text;
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
  const auto best =
      std::ranges::max_element(candidates, [](const Candidate& x, const Candidate& y) { return x.votes < y.votes; });
  return best != candidates.end() && best->correct;
}

std::int64_t num_responses(std::span<const PromptSet> sets, const EvalRecipe& recipe, const dist::Collectives& world) {
  std::int64_t num_prompts = 0;
  for (const PromptSet& set : sets)
    num_prompts += (std::ssize(set.prompts) - world.rank() + world.size() - 1) / world.size();
  return num_prompts * recipe.n;
}

std::string metrics_table(std::span<const PromptSet> sets, const Metrics& metrics) {
  std::set<std::string, report::NameOrder> columns;
  const auto prefix_of = [](const PromptSet& set) { return "val/" + set.data_source + "/"; };
  report::Measures measures;
  measures.add(metrics);
  for (const PromptSet& set : sets) {
    const std::string prefix = prefix_of(set);
    for (const auto& [name, value] : metrics) {
      if (name.starts_with(prefix) && measures.counts(name)) columns.insert(name.substr(prefix.size()));
    }
  }
  std::vector<std::vector<std::string>> rows = {{"data source", "prompts"}};
  rows[0].insert(rows[0].end(), columns.begin(), columns.end());
  for (const PromptSet& set : sets) {
    rows.push_back({set.data_source, std::to_string(set.prompts.size())});
    for (const std::string& column : columns) {
      const auto value = metrics.find(prefix_of(set) + column);
      const bool counts = value != metrics.end() && measures.counts(value->first);
      rows.back().push_back(counts ? base::format("%.4g", value->second) : "-");
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

std::vector<rollout::Rollout> collect_or_cancel(types::TextSource& source,
                                                std::span<const rollout::PromptRequest> prompts, std::int32_t n,
                                                const types::SamplingParams& params, types::SampleKey key,
                                                const rollout::ConversationSettings* conversations,
                                                tasks::JudgeContext context, dist::Collectives& world) {
  context.pause = cancel_if_stopping;
  std::vector<rollout::Rollout> rollouts;
  bool cancelled = false;
  try {
    rollouts = conversations == nullptr
                   ? rollout::collect(source, prompts, n, params, key)
                   : rollout::collect_conversations(source, prompts, n, params, key, *conversations, context);
  } catch (const Cancelled&) {
    cancelled = true;
  }
  if (world.any(cancelled)) throw Cancelled{};
  return rollouts;
}

void judge_or_cancel(std::span<rollout::Rollout> rollouts, std::int32_t n, const tasks::Verifier& verifier,
                     const tasks::RuleWeights& weights, const data::Tokenizer& tokenizer, tasks::JudgeContext context,
                     dist::Collectives& world) {
  if (verifier.is_rule()) return rollout::judge(rollouts, n, verifier, weights, tokenizer, context);
  bool cancelled = false;
  context.pause = cancel_if_stopping;
  try {
    rollout::judge(rollouts, n, verifier, weights, tokenizer, context);
  } catch (const Cancelled&) {
    cancelled = true;
  }
  if (world.any(cancelled)) throw Cancelled{};
}

namespace {

/// Adds up a set's samples over all ranks: counts in integers and scores in the prompts' order, so that no metric
/// depends on the number of ranks.
class SetCounts {
 public:
  SetCounts(std::int32_t n, std::size_t num_prompts, const tasks::Verifier& verifier)
      : n_(n), num_prompts_(static_cast<double>(num_prompts)), verifier_(verifier) {}

  void add(std::span<const rollout::Rollout> group) {
    std::int64_t judged = 0, right = 0;
    for (const rollout::Rollout& r : group) {
      judged += r.verdict.dropped ? 0 : 1;
      right += r.verdict.outcome == reward::Outcome::correct ? 1 : 0;
      tokens_ += r.completion.num_sampled();
      truncated_ += r.completion.stop == types::StopReason::length ? 1 : 0;
      answered_ += r.verdict.verifier_error ? 0 : 1;
      outcomes_ += !r.verdict.verifier_error && r.verdict.has_outcome ? 1 : 0;
      scores_.push_back(r.verdict.dropped ? report::kNan : r.score);
      scores_.insert(scores_.end(), r.verdict.scores.begin(), r.verdict.scores.end());
    }
    prompts_.push_back(judged);
    prompts_.push_back(right);
    majorities_ += majority_is_right(group, verifier_) ? 1 : 0;
  }

  Metrics metrics(const std::string& data_source, dist::Collectives& world) {
    std::int64_t sums[] = {majorities_, tokens_, truncated_, answered_, outcomes_};
    world.all_reduce_sum(std::span<std::int64_t>(sums));
    const std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> prompts = gather(world);
    double num_judged = 0, num_right = 0, prompts_judged = 0;
    for (const auto& [counts, times] : prompts) {
      num_judged += static_cast<double>(counts.first * times);
      num_right += static_cast<double>(counts.second * times);
      prompts_judged += counts.first > 0 ? static_cast<double>(times) : 0.0;
    }
    Metrics metrics;
    const std::string prefix = "val/" + data_source + "/";
    metrics[score_name(data_source, n_, false)] = num_right / num_judged;
    for (std::int64_t k = 2; k < 2 * n_; k *= 2) {
      const std::int64_t capped = std::min<std::int64_t>(k, n_);
      double pass = 0;
      for (const auto& [counts, times] : prompts) {
        const auto [judged, right] = counts;
        if (judged > 0) pass += static_cast<double>(times) * pass_at_k(judged, right, std::min(capped, judged));
      }
      metrics[prefix + "pass@" + std::to_string(capped)] = pass / prompts_judged;
    }
    metrics[prefix + "maj@" + std::to_string(n_)] = static_cast<double>(sums[0]) / prompts_judged;
    metrics[prefix + "response_length/mean"] = static_cast<double>(sums[1]) / (num_prompts_ * n_);
    metrics[prefix + "truncated_fraction"] = static_cast<double>(sums[2]) / (num_prompts_ * n_);
    add_scores(data_source, metrics, world);
    if (verifier_.is_rule()) return metrics;
    metrics[prefix + "error_fraction"] = 1 - num_judged / (num_prompts_ * n_);
    metrics[prefix + "outcome_fraction"] = static_cast<double>(sums[4]) / static_cast<double>(sums[3]);
    return metrics;
  }

 private:
  /// Adds the mean of the weighted sums and of each score. Prompt i is the (i / ranks)-th of rank i % ranks.
  void add_scores(const std::string& data_source, Metrics& metrics, dist::Collectives& world) const {
    const std::vector<std::string>& names = verifier_.score_names();
    const auto by_rank = dist::all_gather_values(std::span<const double>(scores_), world);
    const std::size_t width = 1 + names.size(), of_prompt = width * static_cast<std::size_t>(n_);
    std::vector<double> sums(width), counts(width);
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_prompts_); ++i) {
      const auto scores = std::span(by_rank[i % by_rank.size()]).subspan(i / by_rank.size() * of_prompt, of_prompt);
      for (std::size_t k = 0; k < scores.size(); ++k) {
        if (std::isnan(scores[k])) continue;
        sums[k % width] += scores[k];
        counts[k % width] += 1;
      }
    }
    metrics[score_name(data_source, n_, true)] = sums[0] / counts[0];
    for (std::size_t k = 1; k < width; ++k) {
      metrics["val/" + data_source + "/score/" + names[k - 1] + "/mean@" + std::to_string(n_)] = sums[k] / counts[k];
    }
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> gather(dist::Collectives& world) const {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> prompts;
    for (const auto& counts : dist::all_gather_values(std::span<const std::int64_t>(prompts_), world)) {
      for (std::size_t i = 0; i < counts.size(); i += 2) ++prompts[{counts[i], counts[i + 1]}];
    }
    return prompts;
  }

  std::int32_t n_;
  double num_prompts_;
  const tasks::Verifier& verifier_;
  std::vector<double> scores_;         ///< each sample's weighted sum, then its scores; NaN: not judged
  std::vector<std::int64_t> prompts_;  ///< two counts for each prompt of this rank: judged and correct samples
  std::int64_t majorities_ = 0, tokens_ = 0, truncated_ = 0, answered_ = 0, outcomes_ = 0;
};

}  // namespace

Metrics evaluate(types::TextSource& source, std::span<const PromptSet> sets, const Recipe& recipe,
                 const types::SamplingParams& params, const data::Tokenizer& tokenizer, const tasks::Verifier& verifier,
                 const rollout::ConversationSettings* conversations, dist::Collectives& world, std::string* responses,
                 std::int64_t max_prompts) {
  const auto n = static_cast<std::int32_t>(recipe.eval.n);
  const auto group_size = static_cast<std::size_t>(n);
  Metrics metrics;
  for (const PromptSet& set : sets) {
    std::vector<rollout::PromptRequest> mine;
    std::vector<std::int64_t> places;
    for (auto i = static_cast<std::size_t>(world.rank()); i < set.prompts.size();
         i += static_cast<std::size_t>(world.size())) {
      mine.push_back({&set.prompts[i]});
      places.push_back(static_cast<std::int64_t>(i));
    }
    const tasks::JudgeContext context = {.is_evaluation = true, .max_errors = std::numeric_limits<std::int64_t>::max()};
    auto rollouts =
        collect_or_cancel(source, mine, n, params, {recipe.trainer.seed, kEvalStep}, conversations, context, world);
    judge_or_cancel(rollouts, n, verifier, recipe.reward, tokenizer, context, world);
    if (responses != nullptr) {
      const auto shown =
          static_cast<std::size_t>(std::lower_bound(places.begin(), places.end(), max_prompts) - places.begin());
      *responses += rollout_rows(std::span(rollouts).first(shown * group_size), n, std::span(places).first(shown),
                                 std::nullopt, recipe.reward, verifier, world);
    }
    SetCounts counts(n, set.prompts.size(), verifier);
    for (std::size_t first = 0; first < rollouts.size(); first += group_size)
      counts.add(std::span(rollouts).subspan(first, group_size));
    metrics.merge(counts.metrics(set.data_source, world));
  }
  return metrics;
}

bool HeldOutEvaluation::due_before_training() const {
  return !run_.plan.held_out.empty() && run_.recipe().eval.freq > 0 && run_.recipe().eval.before_train;
}

bool HeldOutEvaluation::due_after(std::int64_t step) const {
  const std::int64_t freq = run_.plan.held_out.empty() ? 0 : run_.recipe().eval.freq;
  return freq > 0 && (step % freq == 0 || step == run_.recipe().trainer.total_training_steps);
}

std::optional<Metrics> HeldOutEvaluation::run(std::int64_t step, PhaseSeconds& seconds) try {
  const Recipe& recipe = run_.recipe();
  const Policy& policy = run_.plan.policy;
  const base::ScopedTimer timer(seconds[Phase::evaluate]);
  std::string responses;
  const GenerationProgress progress(
      step == 0 ? "evaluation before step 1" : "evaluation after step " + std::to_string(step),
      num_responses(run_.plan.held_out, recipe.eval, run_.world), sampler_.decoder);
  const Metrics metrics = evaluate(sampler_.decoder, run_.plan.held_out, recipe, run_.plan.eval_sampling,
                                   policy.tokenizer, *run_.plan.verifier, run_.plan.conversations.get(), run_.world,
                                   recipe.eval.dump > 0 ? &responses : nullptr, recipe.eval.dump);
  if (run_.folder != nullptr && recipe.eval.dump > 0) run_.folder->write_validation(step, responses);
  return metrics;
} catch (const Cancelled&) {
  return std::nullopt;
}

}  // namespace qrl::train
