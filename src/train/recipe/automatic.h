// Owns what `auto` means for quant.learner.forward, rollout.bitwise and quant.rollout.kv_cache. Each depends on the
// keys before it, in this order: devices, weights and activations, forward, bitwise, kv_cache, rotation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/rules.h"
#include "train/recipe/matched_forward.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

inline constexpr std::array<std::string_view, 3> kAutomaticKeys = {"quant.learner.forward", "rollout.bitwise",
                                                                   "quant.rollout.kv_cache"};

/// Names a key that is `auto`, and says why it has its value.
struct AutoChoice {
  std::string_view key;
  std::string why;
};

/// Chooses values for the three keys where they are `auto`, which they stay. Lists what it chose.
std::vector<AutoChoice> choose_automatic(Recipe& recipe);
/// Calls choose_automatic, after which no key of the three is `auto`.
std::vector<AutoChoice> resolve_automatic(Recipe& recipe);

/// Replaces `auto` of a record by what 0.2 meant: a bf16 learner, no equal bits, int8 pages with int8 activations. Its
/// records leave `auto` in quant.rollout.kv_cache alone. Keeps keys of --set. Pages that were chosen for the weights of
/// `recorded`, the record without --set, become `auto` if --set changes these weights.
void set_former_automatic(Recipe& recipe, const Recipe& recorded, const config::Origins& origins);

/// Return what help says of `auto`.
std::string auto_text_of_forward(const MatchedForward& decided);
std::string auto_text_of_bitwise(const MatchedForward& decided);

/// Returns actor.max_tokens_per_micro_batch. On the CPU `auto` holds the longest sequence and row; on a GPU the run
/// chooses (train/plan/gpu_plan.h).
std::int64_t tokens_per_micro_batch(const Recipe& recipe);

/// Returns whether rotation auto is hadamard on a model whose widths its block divides. On real models, rotation
/// reduces only int8's gap between sampler and learner (docs/science/real-weights.md).
bool gains_by_rotation(const QuantRecipe& quant);

}  // namespace qrl::train
