#include "train/cold_start.h"

#include "base/clock.h"
#include "base/threads.h"
#include "rollout/rollout.h"
#include "tasks/generator.h"
#include "train/guards.h"
#include "train/progress.h"
#include "train/signals.h"

namespace qrl::train {

namespace {

/// Demonstrations [first, first + count) as packed micro-batches: prompt, then response and end token to be learnt.
std::vector<types::MicroBatch> demonstration_batches(const RunSetup& setup, std::int64_t first, std::int64_t count) {
  const config::Recipe& recipe = setup.recipe;
  const config::GeneratorRecipe& generator = recipe.sft.demonstrations;
  const std::uint64_t seed = generator.seed.value_or(recipe.trainer.seed);
  const tasks::Generator& kind = tasks::find_generator(*recipe.keys, generator.task);
  const PromptEncoder encoder(recipe.data, setup.policy.tokenizer);
  std::vector<std::vector<types::TokenId>> prompts, responses;
  std::vector<rollout::PackItem> items;
  prompts.reserve(static_cast<std::size_t>(count));
  responses.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = first; i < first + count; ++i) {
    const tasks::WorkedTask demo = kind.demonstrate(generator.own, seed, static_cast<std::uint64_t>(i));
    prompts.push_back(encoder.encode(demo.task.prompt));
    responses.push_back(setup.policy.tokenizer.encode_trusted(demo.response));
    responses.back().push_back(setup.policy.tokenizer.eos());
    items.push_back({prompts.back(), responses.back(), {}, 0.0F});
  }
  return rollout::pack(items, recipe.actor.max_tokens_per_micro_batch);
}

/// Broadcasts whether the first rank is still at work; returns that on every rank.
bool at_work(dist::Collectives& world, bool mine) {
  world.broadcast(std::as_writable_bytes(std::span(&mine, 1)), 0);
  return mine;
}

}  // namespace

void await_cold_start(dist::Collectives& world) {
  while (at_work(world, false)) {
  }
}

void make_cold_start(const RunSetup& setup, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                     const std::optional<std::filesystem::path>& resume_from) {
  const config::Recipe& recipe = setup.recipe;
  const std::unique_ptr<dist::Collectives> solo = dist::make_solo();
  learner::LearnerOptions options = learner_options(recipe);
  options.numerics.forward = config::LearnerForward::bf16;  // nothing is sampled yet
  options.numerics.bitwise = false;
  options.optim = recipe.sft.optim;
  options.total_updates = recipe.sft.steps;
  learner::Learner learner(setup.policy.config, setup.policy.weights, options, *solo);
  if (resume_from) restore_learner(*resume_from, state, learner, *solo);

  state.cold_start = true;
  Progress progress("cold start", state.sft_step + 1, recipe.sft.steps, false);
  const learner::LossOptions loss{.kind = learner::LossKind::sft};
  while (state.sft_step < recipe.sft.steps) {
    (void)at_work(setup.world, true);
    const double start_s = base::now_s();
    const auto batches = demonstration_batches(setup, state.sft_step * recipe.sft.batch_size, recipe.sft.batch_size);
    const types::GlobalCounts counts = rollout::count(batches);
    for (const types::MicroBatch& batch : batches)
      learner.accumulate(batch, counts, loss, {}, &batch == &batches.back());
    learner::UpdateReport report = learner.update();
    guard_finite(report, recipe, state);
    ++state.sft_step;

    report.metrics["timing_s/step"] = base::now_s() - start_s;
    report.metrics["timing_s/unix"] = base::unix_s();
    sft_metrics.append(state.sft_step, report.metrics);
    const bool last = state.sft_step == recipe.sft.steps;
    if (last || state.sft_step % 25 == 0)
      progress.show(state.sft_step, "loss " + std::to_string(report.metrics["actor/sft_loss"]));
    const bool stop = stop_requested();
    if (last || stop || (recipe.sft.save_freq > 0 && state.sft_step % recipe.sft.save_freq == 0))
      checkpointer.commit(learner, *solo);
    if (stop) checkpointer.stop_here();
  }
  (void)at_work(setup.world, false);
}

}  // namespace qrl::train
