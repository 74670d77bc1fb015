// Owns what a checkpoint holds, where checkpoints lie, and which one a run resumes from. The commit protocol itself is
// state/folder.h's. Knows nothing of how training works.
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

/// Holds the state of a run besides weights and moments: all that the next step depends on.
struct RunState {
  bool cold_start = false;       ///< true while the supervised cold start is under way
  std::int64_t sft_step = 0;     ///< cold-start updates done
  std::int64_t step = 0;         ///< RL steps done
  std::int64_t num_updates = 0;  ///< optimizer updates since the optimizer was last reset
  std::int64_t policy_version = 0;
  std::int64_t prompts_drawn = 0;  ///< data cursor, over all ranks
  std::int64_t non_finite_streak = 0;
  double uaq_scale = 1;                                   ///< applied to the weights
  std::int64_t metrics_bytes = 0, sft_metrics_bytes = 0;  ///< rows that belong to this state
  std::int64_t best_step = -1;  ///< of trainer.keep_best: whose evaluation was best so far; −1: none yet
  double best_score = 0;        ///< with best_step
  bool evaluation_due = false;  ///< stopped before `step` was evaluated: its row is unfinished
};

struct AdapterBase;  // train/adapters.h

/// Holds the facts of a run that never change and are in every checkpoint.
struct CheckpointContext {
  const model::ModelConfig& config;  ///< dtype: what an export will be in
  const data::Tokenizer& tokenizer;
  const std::string& resolved_recipe;
  const Inputs& inputs;
  dist::Collectives& world;
  const learner::Metrics& unfinished_row;  ///< of state.step, with state.evaluation_due
  const QuantizerState& quantizer;
  const AdapterBase* base = nullptr;  ///< of a learner with adapters
};

/// Commits DIR/step_N, or DIR/sft_N while cold-starting. No checkpoint of that name may exist; a copy of another
/// checkpoint under that name becomes NAME.copy. Writes an HF folder of the fp32 masters with tokenizer,
/// optimizer.safetensors, state.json, recipe.yaml, and the state of the quantizers. For a learner with adapters, writes
/// a PEFT folder in place of the HF folder, and the hash of their base into state.json. The first rank writes. Each
/// rank of a sharded learner writes its shard: model-00001-of-0000N.safetensors, with the index that such a folder has,
/// and optimizer-00001-of-0000N.safetensors. All ranks return when it is committed, or throw when any of them failed.
std::filesystem::path save_checkpoint(const std::filesystem::path& dir, const RunState& state,
                                      const learner::Learner& learner, const CheckpointContext& context);

/// Removes the oldest of more than `keep` checkpoints of each kind, once the newest is re-read and found sound, else
/// warns and removes nothing. A
/// finished cold start (sft_<final_sft_step>) and step_<best_step> always stay.
void prune_checkpoints(const std::filesystem::path& dir, std::int64_t keep, std::int64_t final_sft_step,
                       std::int64_t best_step = -1);

/// Returns the newest sound checkpoint in `dir` (RL steps after cold-start steps). A warning names damaged ones, and
/// copies under another name. Does not change anything. Throws an internal error if the system cannot read one.
std::optional<std::filesystem::path> newest_sound_checkpoint(const std::filesystem::path& dir);

/// Renames the damaged checkpoints in `dir` that are newer than `sound`, or all when no sound one exists. Their new
/// names are NAME.damaged, or NAME.damaged_2 and on, so that NAME is free again. Copies under another name stay.
void set_aside_damaged(const std::filesystem::path& dir, const std::optional<std::filesystem::path>& sound);

/// Throws an input error that names what is damaged, or that there is no checkpoint, followed by `what_to_do`.
void require_sound_checkpoint(const std::filesystem::path& path, const std::string& what_to_do);

/// Commits a copy of `from` as `to`, and checks that every byte arrived.
void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to);

/// Returns whether both are committed checkpoints with the same files, byte for byte, by their manifests.
bool same_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b);

struct LoadedState {
  RunState state;
  std::string resolved_recipe;
  Inputs inputs;
  model::ModelConfig config;        ///< dtype as exported models have it
  learner::Metrics unfinished_row;  ///< with state.evaluation_due
  int world_size = 1;               ///< ranks of the run that wrote it
};
/// Returns the hash of the weights that a checkpoint's adapters were trained on; empty without adapters.
std::string checkpoint_base_hash(const std::filesystem::path& checkpoint);
/// Reads state.json, recipe.yaml and the config of a checkpoint after verifying every byte; throws an input error that
/// names what is damaged.
LoadedState read_checkpoint_state(const std::filesystem::path& checkpoint);

/// Restores masters, moments and update count from a verified checkpoint of any number of shards. The first rank reads,
/// others receive; a sharded learner's ranks each read their own.
void restore_learner(const std::filesystem::path& checkpoint, const RunState& state, learner::Learner& learner,
                     dist::Collectives& world);

/// Returns the RL step in a checkpoint's name; nothing for one of the cold start and for other names.
std::optional<std::int64_t> rl_step_of(const std::filesystem::path& checkpoint);

/// Returns whether `path` looks like a checkpoint of ours (however damaged) rather than a plain HF folder.
bool is_checkpoint(const std::filesystem::path& path);

}  // namespace qrl::train
