// Owns values for keys at `auto` on a GPU, from its memory and the memory estimate.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/reader.h"
#include "dist/collectives.h"
#include "model/config.h"

namespace qrl::train {

/// Keys whose default `auto` trainer.device cuda replaces at the run's start.
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
  bool is_here = false;  ///< else an example with 80 GiB
};
PlannedGpu gpu_to_plan_for(const config::Recipe& recipe);

/// Returns whether any key is at `auto`.
bool has_auto(const config::Recipe& recipe);
AutoSettings auto_settings_of(const config::Recipe& recipe);
void set_auto(const AutoSettings& settings, config::Recipe& recipe);
/// Does the same, and reprints the recipe: `origin` says where values come from.
void set_auto(const AutoSettings& settings, const std::string& origin, config::LoadedRecipe& loaded);

/// Chooses what is at `auto` for one of num_ranks with gpu_bytes. Micro-batches are the largest that fit: at least the
/// longest sequence or row, at most 32,768 tokens and an update's. Activations are recomputed only if 2,048 tokens do
/// not fit without. Sequences exceed 256 only if the KV cache has room for that number of the longest.
AutoSettings choose_settings(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks,
                             double gpu_bytes);

/// Returns the values that a run's checkpoint has for kAutoKeys; all are 0 without one. The first rank reads.
/// Collective.
AutoSettings recorded_settings(const config::Recipe& recipe, dist::Collectives& world);

/// Sets what is at `auto` at a run's start: to `taken`, its checkpoint's values, or if all are 0 to choose_settings.
/// Returns a line with the plan, or "".
std::string decide_auto(const AutoSettings& taken, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        config::LoadedRecipe& loaded);

/// Returns the bytes of a second micro-batch's activations, in a plan with room for them. The GPU computes its forward
/// pass while the host computes the first one's loss. 0: no room, a single micro-batch, or a learner that waits for its
/// sampler's scores (rollout.bitwise).
double activations_ahead_bytes(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks,
                               double gpu_bytes);

/// Returns a run's peak of GPU memory, with activations_ahead_bytes. KV pages take the rest below
/// rollout.gpu_memory_utilization.
double gpu_peak_bytes(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes);

/// Describes kAutoKeys and their memory: "micro-batches of 8704 tokens, …: about 61.20 GiB of 79.10 GiB".
std::string describe_gpu_plan(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks,
                              double gpu_bytes);

/// Warns if the estimate exceeds the GPU's memory. Throws an input error if the exactly known parts do. A resumed run's
/// warning names only keys that may change.
void require_gpu_memory(const config::Recipe& recipe, const model::ModelConfig& model, int num_ranks, double gpu_bytes,
                        bool is_resumed = false);

}  // namespace qrl::train
