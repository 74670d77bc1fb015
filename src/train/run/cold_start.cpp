#include "train/run/cold_start.h"

#include "base/clock.h"
#include "base/threads.h"
#include "rollout/rollout.h"
#include "tasks/generator.h"
#include "train/metrics/progress.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/prompts/encoder.h"
#include "train/prompts/prompts.h"
#include "train/recipe/catalog.h"
#include "train/signals.h"
#include "train/step/policy_updater.h"

namespace qrl::train {

namespace {

/// Packs demonstrations [first, first + count); response and end token are learned.
std::vector<types::MicroBatch> demonstration_batches(const RunContext& run, std::int64_t first, std::int64_t count) {
  const Recipe& recipe = run.recipe();
  const GeneratorRecipe& generator = recipe.sft.demonstrations;
  const std::uint64_t seed = generator.seed.value_or(recipe.trainer.seed);
  const tasks::Generator& kind = *generator.task;
  const PromptEncoder encoder(recipe.data, run.plan.policy.tokenizer);
  std::vector<std::vector<types::TokenId>> prompts, responses;
  std::vector<rollout::PackItem> items;
  prompts.reserve(static_cast<std::size_t>(count));
  responses.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = first; i < first + count; ++i) {
    const tasks::WorkedTask demo = kind.demonstrate(generator.own, seed, static_cast<std::uint64_t>(i));
    prompts.push_back(encoder.encode(demo.task.prompt));
    responses.push_back(run.plan.policy.tokenizer.encode_trusted(demo.response));
    responses.back().push_back(run.plan.policy.tokenizer.eos());
    items.push_back({prompts.back(), responses.back(), {}, 0.0F});
  }
  return rollout::pack(items, recipe.actor.max_tokens_per_micro_batch);
}

std::vector<types::MicroBatch> batches_of(const RunContext& run, std::int64_t step) {
  const Recipe& recipe = run.recipe();
  if (recipe.sft.train_files.empty())
    return demonstration_batches(run, step * recipe.sft.batch_size, recipe.sft.batch_size);
  const std::vector<SftRow>& rows = run.plan.sft_rows.train;
  std::vector<const SftRow*> chosen;
  for (const std::size_t i : rows_of_update(recipe, rows.size(), step)) chosen.push_back(&rows[i]);
  return pack_rows(recipe, chosen);
}

/// Returns the mean of −log p over learned tokens of sft.val_files, summed in fp64.
double held_out_loss(const RunContext& run, learner::Learner& learner) {
  std::vector<const SftRow*> rows;
  for (const SftRow& row : run.plan.sft_rows.val) rows.push_back(&row);
  double sum = 0;
  std::int64_t num_tokens = 0;
  for (const types::MicroBatch& batch : pack_rows(run.recipe(), rows)) {
    const learner::TokenScores scores = learner.score(batch, {});
    for (std::size_t t = 0; t < batch.loss_mask.size(); ++t) {
      if (batch.loss_mask[t] == 0) continue;
      sum -= scores.logprobs[t];
      ++num_tokens;
    }
  }
  return sum / static_cast<double>(num_tokens);
}

bool at_work(dist::Collectives& world, bool mine) {
  world.broadcast(std::as_writable_bytes(std::span(&mine, 1)), 0);
  return mine;
}

void make_cold_start(const RunContext& run, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                     const std::optional<std::filesystem::path>& resume_from) {
  const Recipe& recipe = run.recipe();
  const std::unique_ptr<dist::Collectives> solo = dist::make_solo();
  learner::LearnerOptions options = run.plan.learner;
  options.num_threads = base::num_threads();                 // other ranks wait
  options.numerics.forward = learner::LearnerForward::bf16;  // nothing is sampled
  options.numerics.bitwise = false;
  options.optim = recipe.sft.optim;
  if (!cold_start_trains_adapters(recipe)) options.lora = {};
  else if (!resume_from) options.lora_initial = given_adapters(recipe, run.plan.model);
  options.total_updates = recipe.sft.steps;
  learner::Learner learner(run.plan.model, run.plan.policy.weights, options, *solo);
  if (resume_from) restore_learner(*resume_from, state, learner, *solo);

  state.cold_start = true;
  const bool has_val = !run.plan.sft_rows.val.empty();
  Progress progress("cold start", state.sft_step + 1, recipe.sft.steps, false);
  const learner::LossOptions loss{.kind = learner::LossKind::sft};
  while (state.sft_step < recipe.sft.steps) {
    (void)at_work(run.world, true);
    const double start_s = base::now_s();
    const auto batches = batches_of(run, state.sft_step);
    const types::GlobalCounts counts = rollout::count(batches);
    for (const types::MicroBatch& batch : batches)
      learner.accumulate(batch, counts, loss, {}, &batch == &batches.back());
    learner::UpdateReport report = learner.update();
    guard_finite(report, recipe, state);
    ++state.sft_step;

    const bool last = state.sft_step == recipe.sft.steps;
    const bool saves = last || (recipe.sft.save_freq > 0 && state.sft_step % recipe.sft.save_freq == 0);
    report.metrics["timing_s/step"] = base::now_s() - start_s;
    if (has_val && (saves || ends_epoch(recipe, run.plan.sft_rows.train.size(), state.sft_step - 1)))
      report.metrics["val/loss"] = held_out_loss(run, learner);
    report.metrics["timing_s/unix"] = base::unix_s();
    sft_metrics.append(state.sft_step, report.metrics);
    if (last || state.sft_step % 25 == 0)
      progress.show(state.sft_step, "loss " + std::to_string(report.metrics["actor/sft_loss"]));
    const bool stop = stop_requested();
    if (saves || stop) checkpointer.commit(learner, *solo);
    if (stop) checkpointer.stop_here();
  }
  (void)at_work(run.world, false);
}

}  // namespace

void run_cold_start(const RunContext& run, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                    const std::optional<std::filesystem::path>& resume_from) {
  if (run.world.is_first()) {
    base::set_num_threads(all_local_threads(run.recipe(), run.world));
    make_cold_start(run, state, sft_metrics, checkpointer, resume_from);
    set_threads(run.recipe(), run.world);
  } else {
    // One broadcast per step keeps the wait below the collectives' time limit.
    while (at_work(run.world, false)) {
    }
  }
  run.world.broadcast(std::as_writable_bytes(std::span(&state, 1)), 0);
}

}  // namespace qrl::train
