// Owns a policy and loading it: weights, adapters, tokenizer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/recipe.h"
#include "data/tokenizer.h"
#include "model/adapter.h"
#include "model/config.h"
#include "model/weights.h"

namespace qrl::train {

/// Holds a policy's adapters on a base.
struct PolicyAdapter {
  model::LoraConfig lora;
  model::WeightSource base, adapters;
  std::string base_path;
};

struct Policy {
  model::ModelConfig config;
  model::WeightSource weights;  ///< merged, in fp32, with adapters
  data::Tokenizer tokenizer;
  std::optional<PolicyAdapter> adapter = {};
};

/// Returns shapes of model.path or model.init, or its tokenizer, without loading weights.
model::ModelConfig model_config(const config::Recipe& recipe);
data::Tokenizer make_tokenizer(const config::Recipe& recipe, const model::ModelConfig& config);

/// Makes the policy of model.path (an HF folder with tokenizer.json), or a new model of model.init's config and seed.
/// The latter's tokenizer is the tokenizer.json beside the config, or the byte-level one. Throws if vocabularies do not
/// fit.
Policy make_policy(const config::Recipe& recipe);
/// Loads a policy from a checkpoint (verified), an HF folder or a PEFT folder.
Policy load_policy(const std::filesystem::path& dir);

}  // namespace qrl::train
