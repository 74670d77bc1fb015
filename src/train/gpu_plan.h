// Owns the values that a run on a GPU chooses for keys at `auto`, from the GPU's memory and the memory estimate. Knows
// nothing of how memory is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/reader.h"
#include "model/config.h"

namespace qrl::train {

/// Keys whose default `auto` a run with trainer.device cuda replaces when it begins.
inline constexpr std::array<std::string_view, 4> kAutoKeys = {
    "rollout.max_num_seqs", "actor.max_tokens_per_micro_batch", "actor.logprob_chunk_tokens",
    "actor.activation_checkpointing"};

/// Values of these keys.
struct AutoSettings {
  std::int64_t max_num_seqs = 0, max_tokens_per_micro_batch = 0, logprob_chunk_tokens = 0;
  bool activation_checkpointing = false;
  friend bool operator==(const AutoSettings&, const AutoSettings&) = default;
};

/// Describes the GPU that a dry run plans for.
struct PlannedGpu {
  double bytes = 0;
  bool is_here = false;  ///< else an example of 80 GiB
};
PlannedGpu gpu_to_plan_for(const config::Recipe& recipe);

/// Returns whether a key is still at `auto`.
bool has_auto(const config::Recipe& recipe);
AutoSettings auto_settings_of(const config::Recipe& recipe);
/// Sets the keys that are at `auto`; others stay.
void set_auto(const AutoSettings& settings, config::Recipe& recipe);
/// Does the same, and prints the recipe anew: `origin` says where the values come from.
void set_auto(const AutoSettings& settings, const std::string& origin, config::LoadedRecipe& loaded);

/// Chooses what is at `auto` for one of num_ranks with gpu_bytes of memory, and keeps what is set. Micro-batches are as
/// large as fits, at most 32,768 tokens and an update's, and never smaller than the longest sequence or row.
/// Activations are recomputed only where 2,048 tokens do not fit without. Sequences exceed 256 only where the KV cache
/// has room for that many of the longest ones.
AutoSettings choose_settings(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks,
                             double gpu_bytes);

/// Sets what is at `auto` when a run begins or resumes: to `taken`, which its checkpoint has, or where all of that is 0
/// to choose_settings. Returns the line that says the plan, "" where nothing was at `auto`.
std::string decide_auto(const AutoSettings& taken, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        config::LoadedRecipe& loaded);

/// Returns the bytes that a second micro-batch's activations add to a plan with room for them. The GPU computes its
/// forward pass while the host computes the loss of the first. 0: no room, or an update is one micro-batch, or the
/// learner waits for its sampler's scores (rollout.bitwise).
double activations_ahead_bytes(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks,
                               double gpu_bytes);

/// Returns the most bytes of a GPU's memory that a run needs at once, with activations_ahead_bytes. Its KV pages take
/// the rest that rollout.gpu_memory_utilization allows.
double gpu_peak_bytes(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes);

/// Says the values of kAutoKeys and what they need: "micro-batches of 8704 tokens, …: about 61.20 GiB of 79.10 GiB".
std::string describe_gpu_plan(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks,
                              double gpu_bytes);

/// Warns where the estimate exceeds the GPU's memory. Throws an input error where the exactly known parts do. The
/// warning of a resumed run names only keys that may change then.
void require_gpu_memory(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        bool is_resumed = false);

}  // namespace qrl::train
