#include "train/step/batch_builder.h"

#include <utility>

#include "base/clock.h"
#include "learner/objective/mini_batch.h"
#include "train/plan/options.h"

namespace qrl::train {

BatchBuilder::BatchBuilder(const RunContext& run, const learner::LossOptions& loss, learner::Learner& learner,
                           learner::Learner* reference)
    : run_(run), loss_(loss), learner_(learner), reference_(reference) {}

std::vector<MiniBatch> BatchBuilder::build(const StepGroups& groups, bool at_sampling_weights, PhaseSeconds& seconds) {
  std::vector<MiniBatch> batches = pack(groups);
  for (MiniBatch& batch : batches) {
    for (types::MicroBatch& micro : batch.micro) add_frozen_logprobs(micro, at_sampling_weights, seconds);
    for (types::MicroBatch& micro : batch.scored_only) add_frozen_logprobs(micro, at_sampling_weights, seconds);
  }
  return batches;
}

std::vector<MiniBatch> BatchBuilder::pack(const StepGroups& groups) const {
  const Recipe& recipe = run_.recipe();
  // Skips sequences with advantage 0: without KL terms, entropy terms or a teacher, they add exactly 0 to the gradient.
  // They still count in the denominators.
  const bool all_count =
      recipe.algorithm.kl_loss_coef != 0 || recipe.algorithm.entropy_coef != 0 || run_.teacher != nullptr;
  const bool all_are_scored = learner::needs_whole_mini_batch(loss_);
  const std::int64_t mini = prompts_per_update(recipe);
  const std::int64_t num_batches =
      (groups.num_groups + mini - 1) / mini;  // fewer if dynamic sampling found too few groups
  std::vector<MiniBatch> batches(static_cast<std::size_t>(num_batches));
  std::vector<std::vector<rollout::PackItem>> items(batches.size()), idle(batches.size());
  std::vector<std::int64_t> counts(2 * batches.size(), 0);
  for (std::size_t i = 0; i < groups.rollouts.size(); ++i) {
    const rollout::Rollout& r = groups.rollouts[i];
    const auto b = static_cast<std::size_t>(groups.places[i / static_cast<std::size_t>(recipe.rollout.n)] / mini);
    if (!r.in_loss) continue;
    if (recipe.algorithm.mask_truncated && r.completion.stop == types::StopReason::length) continue;
    const std::int64_t num_sampled = r.completion.num_sampled();
    if (num_sampled == 0) continue;  // a conversation that failed before its first turn
    counts[2 * b] += num_sampled;
    ++counts[2 * b + 1];
    const bool learns = all_count || r.advantage != 0;
    if (learns || all_are_scored) {
      (learns ? items : idle)[b].push_back(
          rollout::sampled_item(r.prompt->tokens, r.completion, static_cast<float>(r.advantage)));
    }
  }
  run_.world.all_reduce_sum(std::span(counts));
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const std::int64_t budget = recipe.actor.max_tokens_per_micro_batch;
    batches[b] = {rollout::pack(items[b], budget), rollout::pack(idle[b], budget), {counts[2 * b], counts[2 * b + 1]}};
  }
  return batches;
}

void BatchBuilder::add_old_logprobs(types::MicroBatch& micro, bool at_sampling_weights, PhaseSeconds& seconds) {
  const Recipe& recipe = run_.recipe();
  const ops::SampleParams sampled_from = sample_params(recipe.rollout);
  types::Routes routes;
  // With one update per step, the update's own forward pass gives the old log-probs, unless a loss first needs those of
  // the whole mini-batch.
  const bool needs_old =
      updates_per_step(recipe) > 1 || learner::needs_whole_mini_batch(loss_) || run_.teacher != nullptr;
  if (learner::needs_old_entropy(loss_)) {
    const base::ScopedTimer timer(seconds[Phase::old_logprobs]);
    learner::TokenScores scores = learner_.score(micro, sampled_from);
    micro.old_logprobs = std::move(scores.logprobs);
    micro.old_entropy = std::move(scores.entropy);
    routes = std::move(scores.routes);
  } else if (needs_old && recipe.rollout.bitwise && at_sampling_weights) {
    micro.old_logprobs = micro.sampler_logprobs;  // bit-identical to the learner's
    routes = micro.sampler_routes;
  } else if (needs_old) {
    const base::ScopedTimer timer(seconds[Phase::old_logprobs]);
    learner::TokenScores scores = learner_.score(micro, sampled_from);
    micro.old_logprobs = std::move(scores.logprobs);
    routes = std::move(scores.routes);
  }
  if (recipe.algorithm.router_replay != RouterReplay::old || routes.empty()) return;
  micro.old_routes = std::move(routes);
  micro.replay = types::RouteReplay::old;
}

void BatchBuilder::add_frozen_logprobs(types::MicroBatch& micro, bool at_sampling_weights, PhaseSeconds& seconds) {
  const ops::SampleParams sampled_from = sample_params(run_.recipe().rollout);
  micro.replay = replay_of_old_logprobs(run_.recipe(), micro);
  add_old_logprobs(micro, at_sampling_weights, seconds);
  // Reference and teacher do not replay routes.
  const types::RouteReplay replay = std::exchange(micro.replay, types::RouteReplay::none);
  if (reference_ != nullptr) {
    const base::ScopedTimer timer(seconds[Phase::reference_logprobs]);
    micro.reference_logprobs = reference_->score(micro, sampled_from).logprobs;
  } else if (learner_.has_reference()) {
    const base::ScopedTimer timer(seconds[Phase::reference_logprobs]);
    micro.reference_logprobs = learner_.score_reference(micro, sampled_from).logprobs;
  }
  if (run_.teacher != nullptr) {
    const base::ScopedTimer timer(seconds[Phase::reference_logprobs]);
    micro.teacher_logprobs = run_.teacher->score(micro, sampled_from).logprobs;
    follow_teacher(micro);
  }
  micro.replay = replay;
}

/// Sets A_t = reward_coef·A − coef·(log π_old − log π_T), which lowers the advantage of tokens likelier under the
/// policy than under the teacher.
void BatchBuilder::follow_teacher(types::MicroBatch& micro) const {
  const AlgorithmRecipe& algorithm = run_.recipe().algorithm;
  for (std::size_t t = 0; t < micro.advantages.size(); ++t) {
    if (micro.loss_mask[t] == 0) continue;
    const double liked_more =
        static_cast<double>(micro.old_logprobs[t]) - static_cast<double>(micro.teacher_logprobs[t]);
    micro.advantages[t] = static_cast<float>(algorithm.reward_coef * static_cast<double>(micro.advantages[t]) -
                                             algorithm.teacher.coef * liked_more);
  }
}

}  // namespace qrl::train
