#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/tokenizer.h"
#include "model/adapter.h"
#include "model/config.h"
#include "model/weights.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

struct PolicyAdapter {
  model::LoraConfig lora;
  model::WeightSource base, adapters;
  std::string base_path;
};

struct Policy {
  model::ModelConfig config;
  model::WeightSource weights;  ///< fp32 weights, with any adapters merged
  data::Tokenizer tokenizer;
  std::optional<PolicyAdapter> adapter = {};
};

/// Return the config or the tokenizer of model.path or model.init. Weights are not loaded.
model::ModelConfig model_config(const Recipe& recipe);
data::Tokenizer make_tokenizer(const Recipe& recipe, const model::ModelConfig& config);

/// Throws an input error unless the tokenizer has an end token. `where` is its folder.
void require_end_token(const data::Tokenizer& tokenizer, const std::string& where);

/// Makes the policy of model.path (an HF folder with tokenizer.json), or a new model from model.init's config and seed.
/// A new model's tokenizer is the tokenizer.json next to its config, or the byte-level one. Throws an input error if
/// the tokenizer does not fit the model.
Policy make_policy(const Recipe& recipe);
/// Loads a policy from a checkpoint (verified), an HF folder or a PEFT folder.
Policy load_policy(const std::filesystem::path& dir);

}  // namespace qrl::train
