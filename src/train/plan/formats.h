#pragma once

#include <string>
#include <string_view>

#include "config/recipe.h"
#include "model/snapshot.h"
#include "quant/kv_format.h"
#include "quant/rotation.h"

namespace qrl::train {

/// Returns the formats of quant.rollout.*. Rotation auto sets rotates_if_it_fits.
model::SnapshotFormats snapshot_formats(const config::QuantRecipe& quant);
/// Returns quant.rollout.kv_cache, as chosen if it is `auto`.
quant::KvFormat kv_format(const config::QuantRecipe& quant);
std::string rotation_text(const quant::Rotation& rotation);

/// Describes the sampler, such as "int8 weights with int8 keys and values" or "adapters on int8 weights with …".
std::string policy_text(const config::Recipe& recipe);
/// Returns whether export --quantized can write the sampler's weights. They must be low-bit, and have no rotation, int8
/// lm_head or separate adapters.
bool has_quantized_export(const config::Recipe& recipe);
std::string_view name(config::LearnerForward forward);

}  // namespace qrl::train
