#pragma once

#include <string>
#include <string_view>

#include "model/snapshot.h"
#include "quant/kv_format.h"
#include "quant/rotation.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Returns the formats of quant.rollout.*. Rotation auto sets rotates_if_it_fits.
model::SnapshotFormats snapshot_formats(const QuantRecipe& quant);
/// Returns quant.rollout.kv_cache, as chosen if it is `auto`.
quant::KvFormat kv_format(const QuantRecipe& quant);
std::string rotation_text(const quant::Rotation& rotation);

/// Describes the sampler, such as "int8 weights with int8 keys and values" or "adapters on int8 weights with …".
std::string policy_text(const Recipe& recipe);
/// Returns whether export --quantized can write the sampler's weights. They must be low-bit, and have no rotation, int8
/// lm_head or separate adapters.
bool has_quantized_export(const Recipe& recipe);
std::string_view name(learner::LearnerForward forward);

}  // namespace qrl::train
