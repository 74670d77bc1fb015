#include "train/trainer.h"

#include <utility>

#include "base/clock.h"
#include "train/signals.h"
#include "train/step/gap_probe.h"

namespace qrl::train {

Trainer::Trainer(const RunContext& context, RunState& run_state, learner::Learner& policy, learner::Learner* reference,
                 QuantizerState& quantizer, MetricsFile& metrics, Metrics unfinished_row, Checkpointer& checkpoints)
    : run(context),
      state(run_state),
      learner(policy),
      checkpointer(checkpoints),
      sampler(run.plan.model, run.recipe(), run.world, run.recipe().data.max_prompt_length, {},
              &run.plan.policy.tokenizer),
      rollouts(run, sampler, state.prompts_drawn),
      batches(run, run.plan.loss, learner, reference),
      updater(run, run.plan.loss, learner, state),
      publisher(run, state, learner, sampler, quantizer),
      held_out(run, sampler),
      recorder(run, run.plan.loss, state, metrics, std::move(unfinished_row)) {
  publisher.begin();
  check_gap(publisher.first_probe(), run.recipe().rollout_correction);
}

void Trainer::train(RolloutSource& source) {
  if (state.step == 0 && held_out.due_before_training()) {
    recorder.begin_step();
    if (!evaluate()) checkpointer.stop_here();
    recorder.write_scores();
  }
  if (state.evaluation_due) finish_step();
  while (state.step < run.recipe().trainer.total_training_steps) {
    recorder.begin_step();
    if (!step(source, state.step + 1)) save_and_stop();
    ++state.step;
    state.evaluation_due = held_out.due_after(state.step);
    recorder.end_step(save_s_);
    finish_step();
  }
}

bool Trainer::step(RolloutSource& source, std::int64_t step) {
  const std::optional<RolloutBatch> drawn = source.next(step);
  if (!drawn) return false;
  recorder.add_rollouts(*drawn);
  state.prompts_drawn = drawn->prompts_drawn;

  PhaseSeconds seconds;
  const bool fresh = drawn->policy_version == state.policy_version;
  const std::vector<MiniBatch> mini_batches = batches.build(drawn->groups, fresh, seconds);
  std::vector<Metrics> updates;
  {
    const base::ScopedTimer timer(seconds[Phase::update]);
    for (std::int64_t epoch = 0; epoch < run.recipe().actor.ppo_epochs; ++epoch) {
      for (const MiniBatch& batch : mini_batches) {
        if (!updates.empty()) publisher.publish_for_learner(source);
        updates.push_back(updater.update(batch, fresh && updates.empty()));
      }
    }
  }
  recorder.add_updates(updates, mini_batches, seconds);
  updater.release_memory();
  source.drain();

  PhaseSeconds publish_seconds;
  {
    const base::ScopedTimer timer(publish_seconds[Phase::publish]);
    publisher.see(drawn->groups);
    publisher.publish(step);
  }
  recorder.add(publisher.metrics_of_step());
  {
    const base::ScopedTimer timer(publish_seconds[Phase::probe]);
    recorder.add(publisher.probe());
  }
  recorder.add(publish_seconds);
  return true;
}

bool Trainer::evaluate() {
  PhaseSeconds seconds;
  const std::optional<Metrics> scores = held_out.run(state.step, seconds);
  if (!scores) return false;
  recorder.add(*scores);
  recorder.add(seconds);
  return true;
}

void Trainer::finish_step() {
  if (state.evaluation_due) {
    if (!evaluate()) save_and_stop();  // files get only complete rows; the checkpoint keeps the unfinished one
    state.evaluation_due = false;
  }
  recorder.write();
  const bool best = note_if_best(run.recipe(), recorder.row(), state);
  check_gap(recorder.row(), run.recipe().rollout_correction);  // after the row is written, because check_gap may throw

  const TrainerRecipe& trainer = run.recipe().trainer;
  const bool last = state.step == trainer.total_training_steps;
  const bool stop = run.world.any(stop_requested());
  if (stop && !last) save_and_stop();
  const bool due = trainer.save_freq > 0 && state.step % trainer.save_freq == 0;
  save_s_ = last || due || best ? checkpointer.save(learner, recorder.row()) : 0;
}

void Trainer::save_and_stop() {
  checkpointer.save(learner, recorder.row());
  checkpointer.stop_here();
}

}  // namespace qrl::train
