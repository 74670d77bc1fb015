#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "dist/collectives.h"
#include "model/config.h"
#include "train/recipe/load.h"

namespace qrl::train {

/// Keys whose `auto` is replaced at a run's start if trainer.device is cuda.
inline constexpr std::array<std::string_view, 4> kAutoKeys = {
    "rollout.max_num_seqs", "actor.max_tokens_per_micro_batch", "actor.logprob_chunk_tokens",
    "actor.activation_checkpointing"};

struct AutoSettings {
  std::int64_t max_num_seqs = 0, max_tokens_per_micro_batch = 0, logprob_chunk_tokens = 0;
  bool activation_checkpointing = false;
  friend bool operator==(const AutoSettings&, const AutoSettings&) = default;
};

struct PlannedGpu {
  double bytes = 0;
  bool is_here = false;  ///< false: `bytes` is an assumed 80 GiB
};
PlannedGpu gpu_to_plan_for(const Recipe& recipe);

bool has_auto(const Recipe& recipe);
AutoSettings auto_settings_of(const Recipe& recipe);
void set_auto(const AutoSettings& settings, Recipe& recipe);
/// Sets the `auto` keys, records `origin` as their origin, and updates the recipe's YAML.
void set_auto(const AutoSettings& settings, const std::string& origin, LoadedRecipe& loaded);

/// Chooses values for the keys that are `auto`, for one of num_ranks ranks on a GPU of gpu_bytes. Micro-batches are the
/// largest that fit. They hold at least the longest sequence or row. They hold at most one update, and at most 32,768
/// tokens. Activations are recomputed only if micro-batches of 2,048 tokens do not fit otherwise. rollout.max_num_seqs
/// exceeds 256 only if all sequences fit at full length.
AutoSettings choose_settings(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes);

/// Returns the values of kAutoKeys in the checkpoint that the run resumes, or all 0 without one. The first rank reads.
/// Collective.
AutoSettings recorded_settings(const Recipe& recipe, dist::Collectives& world);

/// Replaces `auto` at a run's start by `taken` (recorded_settings). If `taken` is all 0, calls choose_settings instead.
/// Returns a line that describes the plan, or "" if no key is `auto`.
std::string decide_auto(const AutoSettings& taken, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        LoadedRecipe& loaded);

/// Returns the bytes of the next micro-batch's activations. Its forward pass may run while the host still computes the
/// loss of the current micro-batch. Returns 0 if these bytes do not fit, if an update has only one micro-batch, or if
/// rollout.bitwise is set.
double activations_ahead_bytes(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes);

/// Returns a run's peak of GPU memory, including activations_ahead_bytes. Counts KV pages up to
/// rollout.gpu_memory_utilization.
double gpu_peak_bytes(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes);

std::string describe_gpu_plan(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes);

/// Warns if the estimate exceeds the GPU's memory. Throws an input error if weights, gradients and moments alone exceed
/// it.
void require_gpu_memory(const Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        bool is_resumed = false);

}  // namespace qrl::train
