#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/tokenizer.h"
#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/config.h"
#include "train/files/checkpoint_folder.h"
#include "train/policy/inputs.h"
#include "train/policy/quantizer.h"

namespace qrl::train {

/// Holds the state that the next step depends on, besides weights and moments.
struct RunState {
  bool cold_start = false;       ///< during the supervised cold start
  std::int64_t sft_step = 0;     ///< cold-start updates done
  std::int64_t step = 0;         ///< RL steps done
  std::int64_t num_updates = 0;  ///< optimizer updates since its last reset
  std::int64_t policy_version = 0;
  std::int64_t prompts_drawn = 0;  ///< so far, over all ranks
  std::int64_t non_finite_streak = 0;
  double uaq_scale = 1;                                   ///< update-aware scale applied to the weights so far
  std::int64_t metrics_bytes = 0, sft_metrics_bytes = 0;  ///< sizes of the metric files at this state
  std::int64_t best_step = -1;                            ///< best evaluation's step (trainer.keep_best); −1: none
  double best_score = 0;                                  ///< with best_step
  bool evaluation_due = false;  ///< the run stopped before evaluating `step`, whose row is unfinished
};

struct AdapterBase;  // train/policy/adapters.h

/// A run's constants, stored in every checkpoint.
struct CheckpointContext {
  const model::ModelConfig& config;  ///< with the dtype of exports
  const data::Tokenizer& tokenizer;
  const std::string& resolved_recipe;
  const Inputs& inputs;
  dist::Collectives& world;
  const learner::Metrics& unfinished_row;  ///< metrics of state.step, if state.evaluation_due
  const QuantizerState& quantizer;
  const AdapterBase* base = nullptr;  ///< null without adapters
};

/// Commits DIR/step_N, or DIR/sft_N while cold-starting: an HF folder of fp32 masters with tokenizer,
/// optimizer.safetensors, state.json, recipe.yaml and quantizer state. No checkpoint of that name may exist; a copy of
/// another checkpoint with that name is renamed to NAME.copy. With adapters, a PEFT folder replaces the HF folder, and
/// state.json has the base's hash. The first rank writes. Ranks of a sharded learner write shards:
/// model-00001-of-0000N.safetensors with an index, optimizer-00001-of-0000N.safetensors. All ranks return after the
/// commit, or throw if any failed.
std::filesystem::path save_checkpoint(const std::filesystem::path& dir, const RunState& state,
                                      const learner::Learner& learner, const CheckpointContext& context);

struct LoadedState {
  RunState state;
  std::string resolved_recipe;
  Inputs inputs;
  model::ModelConfig config;        ///< with the dtype of exports
  learner::Metrics unfinished_row;  ///< if state.evaluation_due
  int world_size = 1;               ///< ranks of the run that wrote it
};
/// Reads state.json, recipe.yaml and config, after verifying every byte. Throws an input error that names the damage.
LoadedState read_checkpoint_state(const std::filesystem::path& checkpoint);

/// Restores masters, moments and update count from a verified checkpoint with any number of shards. The first rank
/// reads and broadcasts; if sharded, each rank reads.
void restore_learner(const std::filesystem::path& checkpoint, const RunState& state, learner::Learner& learner,
                     dist::Collectives& world);

}  // namespace qrl::train
