#include "train/trainer.h"

#include "base/clock.h"
#include "train/signals.h"
#include "train/step/gap_probe.h"

namespace qrl::train {

void Trainer::train() {
  if (state_.step == 0 && parts_.held_out.due_before_training()) {
    parts_.recorder.begin_step();
    if (!evaluate()) parts_.checkpointer.stop_here();
    parts_.recorder.write_scores();
  }
  if (state_.evaluation_due) finish_step();
  while (state_.step < run_.recipe().trainer.total_training_steps) {
    parts_.recorder.begin_step();
    if (!step(state_.step + 1)) save_and_stop();
    ++state_.step;
    state_.evaluation_due = parts_.held_out.due_after(state_.step);
    parts_.recorder.end_step(save_s_);
    finish_step();
  }
}

bool Trainer::step(std::int64_t step) {
  const std::optional<RolloutBatch> rollouts = parts_.rollouts.next(step);
  if (!rollouts) return false;
  parts_.recorder.add_rollouts(*rollouts);
  state_.prompts_drawn = rollouts->prompts_drawn;

  PhaseSeconds seconds;
  const bool fresh = rollouts->policy_version == state_.policy_version;
  const std::vector<MiniBatch> batches = parts_.batches.build(rollouts->groups, fresh, seconds);
  std::vector<Metrics> updates;
  {
    const base::ScopedTimer timer(seconds[Phase::update]);
    for (std::int64_t epoch = 0; epoch < run_.recipe().actor.ppo_epochs; ++epoch) {
      for (const MiniBatch& batch : batches) {
        if (!updates.empty()) parts_.publisher.publish_for_learner();
        updates.push_back(parts_.updater.update(batch, fresh && updates.empty()));
      }
    }
  }
  parts_.recorder.add_updates(updates, batches, seconds);
  parts_.updater.release_memory();
  parts_.rollouts.drain();

  PhaseSeconds publish_seconds;
  {
    const base::ScopedTimer timer(publish_seconds[Phase::publish]);
    parts_.publisher.see(rollouts->groups);
    parts_.publisher.publish(step);
  }
  parts_.recorder.add(parts_.publisher.calibration());
  {
    const base::ScopedTimer timer(publish_seconds[Phase::probe]);
    parts_.recorder.add(parts_.publisher.probe());
  }
  parts_.recorder.add(publish_seconds);
  return true;
}

bool Trainer::evaluate() {
  PhaseSeconds seconds;
  const std::optional<Metrics> scores = parts_.held_out.run(state_.step, seconds);
  if (!scores) return false;
  parts_.recorder.add(*scores);
  parts_.recorder.add(seconds);
  return true;
}

void Trainer::finish_step() {
  if (state_.evaluation_due) {
    if (!evaluate()) save_and_stop();  // files get only complete rows; the checkpoint keeps the unfinished one
    state_.evaluation_due = false;
  }
  parts_.recorder.write();
  const bool best = note_if_best(run_.recipe(), parts_.recorder.row(), state_);
  check_gap(parts_.recorder.row(), run_.recipe().rollout_correction);  // after the row is written

  const config::TrainerRecipe& trainer = run_.recipe().trainer;
  const bool last = state_.step == trainer.total_training_steps;
  const bool stop = run_.world.any(stop_requested());
  if (stop && !last) save_and_stop();
  const bool due = trainer.save_freq > 0 && state_.step % trainer.save_freq == 0;
  save_s_ = last || due || best ? parts_.checkpointer.save(learner_, parts_.recorder.row()) : 0;
}

void Trainer::save_and_stop() {
  parts_.checkpointer.save(learner_, parts_.recorder.row());
  parts_.checkpointer.stop_here();
}

}  // namespace qrl::train
