// Owns what the recipe's words for number formats mean to model, decoder and learner. Knows no other key.
#pragma once

#include <string>
#include <string_view>

#include "config/recipe.h"
#include "model/snapshot.h"
#include "quant/kv_format.h"

namespace qrl::train {

/// Returns the formats of quant.rollout.* with auto resolved. Combinations that the recipe's rules refuse are an
/// internal error.
model::SnapshotFormats snapshot_formats(const config::QuantRecipe& quant);
/// Returns the format of quant.rollout.kv_cache; auto: int8 with int8 activations, fp32 with fp32 weights, else bf16.
quant::KvFormat kv_format(const config::QuantRecipe& quant);
/// Names what samples: "int8 weights with int8 keys and values", "adapters beside int8 weights with …".
std::string policy_text(const config::Recipe& recipe);
/// Tells whether export --quantized can write what the recipe's sampler multiplies by: low-bit weights, no other
/// lm_head than the learner's, and no adapters beside them.
bool has_quantized_export(const config::Recipe& recipe);
/// The recipe's words.
std::string_view name(config::LearnerForward forward);
std::string_view name(config::LearnerBackward backward);

}  // namespace qrl::train
