// Owns a checkpoint's contents and place, and which one a run resumes from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/tokenizer.h"
#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/config.h"
#include "train/inputs.h"
#include "train/quantizer.h"

namespace qrl::train {

/// Holds all that the next step depends on besides weights and moments.
struct RunState {
  bool cold_start = false;       ///< during the supervised cold start
  std::int64_t sft_step = 0;     ///< cold-start updates done
  std::int64_t step = 0;         ///< RL steps done
  std::int64_t num_updates = 0;  ///< optimizer updates since its last reset
  std::int64_t policy_version = 0;
  std::int64_t prompts_drawn = 0;  ///< data cursor over all ranks
  std::int64_t non_finite_streak = 0;
  double uaq_scale = 1;                                   ///< applied to the weights
  std::int64_t metrics_bytes = 0, sft_metrics_bytes = 0;  ///< rows of this state
  std::int64_t best_step = -1;                            ///< trainer.keep_best: the best evaluation so far; −1: none
  double best_score = 0;                                  ///< with best_step
  bool evaluation_due = false;  ///< stopped before the evaluation of `step`, whose row is unfinished
};

struct AdapterBase;  // train/adapters.h

/// Holds facts of a run that never change, kept in every checkpoint.
struct CheckpointContext {
  const model::ModelConfig& config;  ///< dtype: of exports
  const data::Tokenizer& tokenizer;
  const std::string& resolved_recipe;
  const Inputs& inputs;
  dist::Collectives& world;
  const learner::Metrics& unfinished_row;  ///< of state.step, if state.evaluation_due
  const QuantizerState& quantizer;
  const AdapterBase* base = nullptr;  ///< of adapters
};

/// Commits DIR/step_N, or DIR/sft_N while cold-starting. No checkpoint of that name may exist; another checkpoint's
/// copy under it becomes NAME.copy. Writes an HF folder of fp32 masters with tokenizer, optimizer.safetensors,
/// state.json, recipe.yaml and quantizer state. With adapters, a PEFT folder replaces the HF folder, and state.json has
/// the base's hash. The first rank writes. Ranks of a sharded learner write shards: model-00001-of-0000N.safetensors
/// with an index, optimizer-00001-of-0000N.safetensors. All ranks return when it is committed, or throw when any
/// failed.
std::filesystem::path save_checkpoint(const std::filesystem::path& dir, const RunState& state,
                                      const learner::Learner& learner, const CheckpointContext& context);

/// Removes the oldest checkpoints above `keep` of each kind, once the newest, re-read, is sound; else warns and removes
/// nothing. sft_<final_sft_step> and step_<best_step> always stay.
void prune_checkpoints(const std::filesystem::path& dir, std::int64_t keep, std::int64_t final_sft_step,
                       std::int64_t best_step = -1);

/// Returns the newest sound checkpoint in `dir` (RL steps after cold-start steps). Warns of damaged ones, and of copies
/// under another name. Changes nothing. Throws an internal error if the system cannot read one.
std::optional<std::filesystem::path> newest_sound_checkpoint(const std::filesystem::path& dir);

/// Renames damaged checkpoints newer than `sound` (without one: all) to NAME.damaged, NAME.damaged_2, …, so that NAME
/// is free. Copies under another name stay.
void set_aside_damaged(const std::filesystem::path& dir, const std::optional<std::filesystem::path>& sound);

/// Throws an input error with `what_to_do` if the checkpoint is damaged or missing.
void require_sound_checkpoint(const std::filesystem::path& path, const std::string& what_to_do);

/// Commits a copy of `from` as `to`, and verifies every byte.
void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to);

/// Returns whether both are committed with the same files, byte for byte, by their manifests.
bool same_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b);

struct LoadedState {
  RunState state;
  std::string resolved_recipe;
  Inputs inputs;
  model::ModelConfig config;        ///< exports' dtype
  learner::Metrics unfinished_row;  ///< if state.evaluation_due
  int world_size = 1;               ///< of the run that wrote it
};
/// Returns the base's weights hash in a checkpoint of adapters, else "".
std::string checkpoint_base_hash(const std::filesystem::path& checkpoint);
/// Reads state.json, recipe.yaml and config after verifying every byte; throws an input error that names damage.
LoadedState read_checkpoint_state(const std::filesystem::path& checkpoint);

/// Restores masters, moments and update count from a verified checkpoint with any number of shards. The first rank
/// reads and broadcasts; a sharded learner's ranks read their own.
void restore_learner(const std::filesystem::path& checkpoint, const RunState& state, learner::Learner& learner,
                     dist::Collectives& world);

/// Returns the RL step in a checkpoint's name; nothing for other names and cold starts.
std::optional<std::int64_t> rl_step_of(const std::filesystem::path& checkpoint);

/// Returns whether `path` looks like our checkpoint, even if damaged, not a plain HF folder.
bool is_checkpoint(const std::filesystem::path& path);

}  // namespace qrl::train
