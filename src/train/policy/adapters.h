#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/weights.h"
#include "train/policy/policy.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

struct AdapterBase {
  std::string path;  ///< folder of the model, or of the run's finished cold start
  std::string hash;  ///< model::weights_hash of the base
  std::optional<model::WeightSource> weights;
};

/// Returns the base of a run's adapters: the model, or the checkpoint `cold_start` if a cold start trained all weights.
/// Reads all weights once.
AdapterBase find_base(const Recipe& recipe, const Policy& policy, const std::filesystem::path& cold_start);

/// Throws an input error if a checkpoint's adapters were trained on other weights than those of `folder`, whose
/// model::weights_hash is `hash`.
void require_same_base(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                       const std::string& hash);

/// Reads the adapters of lora.path, if set. Throws an input error if rank, scale or modules differ from the recipe's.
std::optional<model::WeightSource> given_adapters(const Recipe& recipe, const model::ModelConfig& config);
/// Returns whether the run's start reads lora.path. It does if the run is fresh, or if these adapters are the KL
/// reference. Verifies the newest checkpoint.
bool reads_given_adapters(const Recipe& recipe);

/// Returns make_policy's policy with the adapters of lora.path, if set.
Policy initial_policy(const Recipe& recipe);

}  // namespace qrl::train
