// Owns what the recipe's section `lora` means to model, sampler and learner, and how the base of a folder of adapters
// is found. Knows nothing of steps.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/recipe.h"
#include "data/tokenizer.h"
#include "model/adapter.h"
#include "model/snapshot.h"
#include "train/session.h"

namespace qrl::train {

/// Holds the weights that a run's adapters are trained on.
struct AdapterBase {
  std::string path;  ///< a model's folder, or the run's finished cold start
  std::string hash;  ///< of the weights (model::weights_hash)
  std::optional<model::WeightSource> weights;
};

model::LoraConfig lora_config(const config::LoraRecipe& lora);
/// Returns a recipe's section for a folder's adapters.
config::LoraRecipe lora_recipe(const model::LoraConfig& lora);

/// Returns the base of a run; its cold start, if it has one, is finished in the folder `cold_start`. Reads all its
/// weights once.
AdapterBase find_base(const config::Recipe& recipe, const Policy& policy, const std::filesystem::path& cold_start);

/// Throws an input error if the adapters of a checkpoint were trained on other weights than those of `folder`, whose
/// hash is `hash` (model::weights_hash).
void require_same_base(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                       const std::string& hash);

/// Reads the adapters of lora.path; nothing without one. Throws an input error if its rank, scale or modules differ
/// from the recipe's.
std::optional<model::WeightSource> given_adapters(const config::Recipe& recipe, const model::ModelConfig& config);
/// Returns whether a start of the run reads them. A fresh run does; a resumed run does if they are the KL term's
/// reference.
bool reads_given_adapters(const config::Recipe& recipe, bool goes_on);

/// Returns the recipe's policy before training: make_policy's, with the adapters of lora.path.
Policy initial_policy(const config::Recipe& recipe);

/// Loads the policy of a folder of adapters: one of PEFT's, or a checkpoint. Throws an input error if its base is not
/// found, or, for a checkpoint, has other weights than those it was trained on.
Policy load_adapted_policy(const std::filesystem::path& dir);

}  // namespace qrl::train
