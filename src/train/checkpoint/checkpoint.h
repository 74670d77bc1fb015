#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/config.h"
#include "train/files/checkpoint_folder.h"
#include "train/policy/quantizer.h"
#include "train/run_plan.h"

namespace qrl::train {

/// Holds the training state besides weights and moments.
struct RunState {
  bool cold_start = false;       ///< if set, the run is in its cold start (SFT before RL)
  std::int64_t sft_step = 0;     ///< cold-start updates done
  std::int64_t step = 0;         ///< RL steps done
  std::int64_t num_updates = 0;  ///< optimizer updates since its last reset
  std::int64_t policy_version = 0;
  std::int64_t prompts_drawn = 0;  ///< prompts drawn so far, summed over all ranks
  std::int64_t non_finite_streak = 0;
  double uaq_scale = 1;                                   ///< update-aware scale (QuRL) already applied to the weights
  std::int64_t metrics_bytes = 0, sft_metrics_bytes = 0;  ///< sizes of the metric files at this state
  std::int64_t best_step = -1;                            ///< step with the highest trainer.keep_best score; −1: none
  double best_score = 0;
  bool evaluation_due = false;  ///< if set, `step` is done but not evaluated, so its metric row is unfinished
};

template <class State, class Visit>
void visit_members(State& state, const Visit& visit) {
  visit("cold_start", state.cold_start);
  visit("sft_step", state.sft_step);
  visit("step", state.step);
  visit("num_updates", state.num_updates);
  visit("policy_version", state.policy_version);
  visit("prompts_drawn", state.prompts_drawn);
  visit("non_finite_streak", state.non_finite_streak);
  visit("uaq_scale", state.uaq_scale);
  visit("metrics_bytes", state.metrics_bytes);
  visit("sft_metrics_bytes", state.sft_metrics_bytes);
}

struct LoadedState {
  RunState state;
  std::string resolved_recipe;
  Inputs inputs;
  model::ModelConfig config;        ///< config.dtype is the dtype of exports
  learner::Metrics unfinished_row;  ///< metrics of state.step so far, if state.evaluation_due
  int world_size = 1;
};
/// Verifies every byte of the checkpoint, then reads state.json, recipe.yaml and config.json. Throws an input error
/// that names the damage.
LoadedState read_checkpoint_state(const std::filesystem::path& checkpoint);

/// Restores masters, moments and update count from a verified checkpoint with any number of shards. The first rank
/// reads and broadcasts; if the learner is sharded, each rank reads.
void restore_learner(const std::filesystem::path& checkpoint, const RunState& state, learner::Learner& learner,
                     dist::Collectives& world);

/// Returns whether the row has the best trainer.keep_best score so far, and if so, records it in `state`.
bool note_if_best(const Recipe& recipe, const learner::Metrics& row, RunState& state);

class Checkpointer {
 public:
  /// Arguments must outlive the object.
  Checkpointer(const RunContext& run, RunState& state, MetricsFile& metrics, MetricsFile& sft_metrics,
               const QuantizerState& quantizer);

  /// Commits RUN/checkpoints/step_N, or sft_N while cold-starting, and prunes old checkpoints. Collective over `world`.
  /// `row`: metrics of state.step, stored if state.evaluation_due.
  ///
  /// A checkpoint is an HF folder of fp32 masters with tokenizer, optimizer.safetensors, state.json, recipe.yaml and
  /// quantizer state. A folder of the same name is renamed if it is a copy of another checkpoint (set_aside_copy); no
  /// other folder of that name may exist. With adapters, a PEFT folder replaces the HF folder, and state.json records
  /// the base's path and hash. The first rank writes. With a sharded learner, each rank writes its shards,
  /// model-00001-of-0000N.safetensors and optimizer-00001-of-0000N.safetensors, and the first rank adds an index. All
  /// ranks return after the commit, or all throw if one failed.
  void commit(const learner::Learner& learner, dist::Collectives& world, const Metrics& row = {});
  /// Calls commit unless state.step already has a checkpoint. Links `best` to the checkpoint if state.step is the best
  /// step. Returns the seconds that commit took.
  double save(const learner::Learner& learner, const Metrics& row);
  /// Throws the error of a stopped run (exit 75). The state must be on disk.
  [[noreturn]] void stop_here() const;

 private:
  const RunContext& run_;
  RunState& state_;
  MetricsFile& metrics_;
  MetricsFile& sft_metrics_;
  const QuantizerState& quantizer_;
  std::int64_t saved_step_;  ///< last step that has a checkpoint or needs none
};

}  // namespace qrl::train
