#include "train/step/rollout_source.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "base/clock.h"
#include "base/log.h"
#include "train/evaluate/evaluate.h"
#include "train/plan/options.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"
#include "train/signals.h"

namespace qrl::train {

namespace {

class GroupSampler {
 public:
  GroupSampler(const RunContext& run, std::int64_t step, PromptOrder& order, Sampler& sampler)
      : run_(run),
        recipe_(run.recipe()),
        prompts_(run.plan.prompts),
        step_(static_cast<std::uint32_t>(step)),
        n_(static_cast<std::size_t>(recipe_.rollout.n)),
        order_(order),
        sampler_(sampler),
        flat_groups_(recipe_.algorithm.filter_groups.metric, *run.plan.verifier) {}

  void sample_batch(std::int64_t num_prompts, PhaseSeconds& seconds) {
    std::vector<rollout::Rollout> batch;
    {
      const base::ScopedTimer timer(seconds[Phase::generate]);
      batch = collect_or_cancel(sampler_.decoder, my_share(num_prompts), static_cast<std::int32_t>(n_),
                                run_.plan.train_sampling, {recipe_.trainer.seed, step_}, run_.plan.conversations.get(),
                                judge_context(num_prompts), run_.world);
    }
    if (recipe_.rollout.free_cache_engine) sampler_.decoder.release_kv();
    const base::ScopedTimer timer(seconds[Phase::judge]);
    judge(batch, num_prompts);
    rollout::shape_overlong(batch, recipe_.reward.overlong_buffer, recipe_.data.max_response_length);
    count(batch, num_prompts);
    keep(std::move(batch), num_prompts);
  }

  const GenerationCounts& counts() const { return counts_; }
  StepGroups take() {
    const AlgorithmRecipe& algorithm = recipe_.algorithm;
    const auto n = static_cast<std::int32_t>(n_);
    if (recipe_.reward.aggregation == RewardAggregation::normalize_then_sum) {
      rollout::set_advantages_by_score(groups_.rollouts, n, run_.plan.verifier->score_weights(recipe_.reward),
                                       algorithm.positive_only, run_.world);
      return std::move(groups_);
    }
    rollout::set_advantages(groups_.rollouts, n,
                            {algorithm.adv_estimator.get(), *algorithm.norm_adv_by_std, algorithm.positive_only},
                            run_.world);
    return std::move(groups_);
  }

 private:
  /// Returns this rank's share of the next num_prompts prompts: prompt i belongs to rank i mod world size.
  std::vector<rollout::PromptRequest> my_share(std::int64_t num_prompts) {
    std::vector<rollout::PromptRequest> mine;
    const auto size = static_cast<std::size_t>(run_.world.size()), rank = static_cast<std::size_t>(run_.world.rank());
    const std::vector<std::size_t> next = order_.next(num_prompts);
    for (std::size_t i = 0; i < next.size(); ++i) {
      const std::int32_t times = times_sampled_[next[i]]++;
      if (i % size == rank) mine.push_back({&prompts_.prompts[next[i]], times * static_cast<std::int32_t>(n_)});
    }
    return mine;
  }

  void judge(std::vector<rollout::Rollout>& batch, std::int64_t num_prompts) {
    judge_or_cancel(batch, static_cast<std::int32_t>(n_), *run_.plan.verifier, recipe_.reward,
                    run_.plan.policy.tokenizer, judge_context(num_prompts), run_.world);
  }

  tasks::JudgeContext judge_context(std::int64_t num_prompts) const {
    const double rows = static_cast<double>(num_prompts) * static_cast<double>(n_);
    return {.step = static_cast<std::int64_t>(step_),
            .max_errors = static_cast<std::int64_t>(recipe_.reward.max_error_fraction * rows)};
  }

  void count(std::span<const rollout::Rollout> batch, std::int64_t num_prompts) {
    std::int64_t sums[] = {0, 0};
    for (std::size_t first = 0; first < batch.size(); first += n_)
      sums[0] += flat_groups_.is_flat(batch.subspan(first, n_)) ? 1 : 0;
    for (const rollout::Rollout& r : batch) sums[1] += r.verdict.verifier_error ? 1 : 0;
    run_.world.all_reduce_sum(std::span<std::int64_t>(sums));
    count_scores(batch);
    ++counts_.batches;
    counts_.groups += num_prompts;
    counts_.samples += num_prompts * static_cast<std::int64_t>(n_);
    counts_.flat_groups += sums[0];
    counts_.verifier_errors += sums[1];
  }

  void count_scores(std::span<const rollout::Rollout> batch) {
    double sum = 0, best = std::numeric_limits<double>::lowest();
    std::int64_t num_judged = 0;
    for (std::size_t first = 0; first < batch.size(); first += n_) {
      double of_group = 0;
      std::int64_t size = 0;
      for (const rollout::Rollout& r : batch.subspan(first, n_)) {
        if (r.verdict.dropped) continue;
        of_group += r.score;
        ++size;
      }
      sum += of_group;
      num_judged += size;
      if (size > 0) best = std::max(best, of_group / static_cast<double>(size));
    }
    run_.world.all_reduce_sum(std::span<std::int64_t>(&num_judged, 1));
    counts_.num_judged += num_judged;
    run_.world.all_reduce_sum(std::span<double>(&sum, 1));
    run_.world.all_reduce_max(std::span<double>(&best, 1));
    counts_.score_sum += sum;
    counts_.best_group_score = counts_.batches == 0 ? best : std::max(counts_.best_group_score, best);
  }

  void keep(std::vector<rollout::Rollout> batch, std::int64_t num_prompts) {
    const auto size = static_cast<std::size_t>(run_.world.size()), rank = static_cast<std::size_t>(run_.world.rank());
    std::vector<std::int64_t> is_kept(static_cast<std::size_t>(num_prompts), 0);
    for (std::size_t first = 0; first < batch.size(); first += n_) {
      const bool flat = flat_groups_.is_flat(std::span<const rollout::Rollout>(batch).subspan(first, n_));
      is_kept[first / n_ * size + rank] = recipe_.algorithm.filter_groups.enable && flat ? 0 : 1;
    }
    run_.world.all_reduce_sum(std::span(is_kept));
    for (std::size_t i = 0; i < is_kept.size(); ++i) {
      if (is_kept[i] == 0) continue;
      const std::int64_t place = counts_.kept_groups++;
      if (place >= recipe_.data.train_batch_size) continue;
      ++groups_.num_groups;
      if (i % size != rank) continue;
      groups_.places.push_back(place);
      const auto first = batch.begin() + static_cast<std::ptrdiff_t>(i / size * n_);
      std::move(first, first + static_cast<std::ptrdiff_t>(n_), std::back_inserter(groups_.rollouts));
    }
  }

  const RunContext& run_;
  const Recipe& recipe_;
  const PromptSet& prompts_;
  std::uint32_t step_;
  std::size_t n_;
  PromptOrder& order_;
  Sampler& sampler_;
  rollout::FlatGroups flat_groups_;
  std::map<std::size_t, std::int32_t> times_sampled_;  ///< times sampled in this step, by prompt index
  GenerationCounts counts_;
  StepGroups groups_;
};

void check_enough(const Recipe& recipe, const GenerationCounts& counts) {
  const auto& filter = recipe.algorithm.filter_groups;
  const bool may_be_partial = filter.on_exhausted == OnExhausted::train_partial;
  if (counts.kept_groups >= recipe.data.train_batch_size || (may_be_partial && counts.kept_groups > 0)) return;
  const std::int64_t wanted = may_be_partial ? 1 : recipe.data.train_batch_size;
  const std::string advice = "the task is too easy or too hard for the policy: change it, or raise max_num_gen_batches";
  throw base::Error(base::ErrorKind::guard, "algorithm.filter_groups",
                    std::to_string(wanted) + " groups whose scores differ" + (may_be_partial ? " (at least)" : ""),
                    std::to_string(counts.kept_groups) + " in " + std::to_string(counts.batches) + " draws of " +
                        std::to_string(*recipe.data.gen_batch_size) + " prompts",
                    may_be_partial ? advice : advice + ", or set on_exhausted: train_partial");
}

void check_verifier(const Recipe& recipe, const GenerationCounts& counts, std::int64_t step) {
  const double errors = static_cast<double>(counts.verifier_errors) / static_cast<double>(counts.samples);
  if (errors <= recipe.reward.max_error_fraction) return;
  throw base::Error(
      base::ErrorKind::guard, "reward",
      "at most reward.max_error_fraction = " + std::to_string(recipe.reward.max_error_fraction) + " verifier errors",
      std::to_string(errors), "look at the rollouts of step " + std::to_string(step));
}

}  // namespace

SamplingSource::SamplingSource(const RunContext& run, Sampler& sampler, std::int64_t prompts_drawn)
    : run_(run), sampler_(sampler), order_(make_order(run.recipe(), run.plan.prompts)) {
  order_.restore(prompts_drawn);
}

std::optional<RolloutBatch> SamplingSource::next(std::int64_t step) {
  const Recipe& recipe = run_.recipe();
  const auto& filter = recipe.algorithm.filter_groups;
  const std::int64_t wanted = recipe.data.train_batch_size;
  const std::int64_t num_taken_before = order_.num_taken();
  RolloutBatch batch;
  batch.policy_version = sampler_.snapshot.version();
  GroupSampler groups(run_, step, order_, sampler_);
  sampler_.decoder.reset_stats();
  try {
    groups.sample_batch(filter.enable ? *recipe.data.gen_batch_size : wanted, batch.seconds);
    while (filter.enable && groups.counts().kept_groups < wanted &&
           groups.counts().batches < filter.max_num_gen_batches) {
      base::log_to_file("step " + std::to_string(step) + ": " + std::to_string(groups.counts().kept_groups) + " of " +
                        std::to_string(wanted) + " groups whose scores differ after draw " +
                        std::to_string(groups.counts().batches));
      groups.sample_batch(*recipe.data.gen_batch_size, batch.seconds);
    }
  } catch (const Cancelled&) {
    order_.restore(num_taken_before);
    return std::nullopt;
  }
  batch.counts = groups.counts();
  batch.groups = groups.take();
  batch.stats = sampler_.decoder.stats();
  batch.prompts_drawn = order_.num_taken();
  if (recipe.trainer.rollout_dump) {
    const std::string rows = rollout_rows(batch.groups.rollouts, static_cast<std::int32_t>(recipe.rollout.n),
                                          batch.groups.places, step, recipe.reward, *run_.plan.verifier, run_.world);
    if (run_.folder != nullptr) run_.folder->write_rollouts(step, rows);
  }
  check_verifier(recipe, batch.counts, step);
  check_enough(recipe, batch.counts);
  return batch;
}

}  // namespace qrl::train
