// Owns what the recipe's words for number formats mean to model, decoder and learner. Knows no other key.
#pragma once

#include <string_view>

#include "config/recipe.h"
#include "model/snapshot.h"
#include "quant/kv_format.h"

namespace qrl::train {

/// What quant.rollout.* asks for, auto resolved. Combinations that the recipe's rules refuse are an internal error.
model::SnapshotFormats snapshot_formats(const config::QuantRecipe& quant);
/// What quant.rollout.kv_cache asks for; auto: int8 where activations are int8, fp32 with fp32 weights, else bf16.
quant::KvFormat kv_format(const config::QuantRecipe& quant);
/// The recipe's words.
std::string_view name(config::LearnerForward forward);
std::string_view name(config::LearnerBackward backward);

}  // namespace qrl::train
