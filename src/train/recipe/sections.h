// Owns the functions that add a recipe's sections.
#pragma once

#include <string>

#include "config/keys/sections.h"
#include "train/recipe/catalog.h"

namespace qrl::train {

/// Adds a task generator's keys. Omits `size` if `is_endless`.
void add_generator(config::OnResume on_resume, config::Section<GeneratorRecipe> section,
                   const config::Choices<tasks::Generator>& generators, const std::string& unset_seed,
                   bool is_endless = false);

void add_quant(config::Keys& keys, const MatchedForward& decided);
/// Adds the keys of algorithm and rollout_correction.
void add_objective(config::Keys& keys, const Catalog& catalog);
void add_reward(config::Keys& keys, const config::Choices<tasks::VerifierChoice>& verifiers);

void add_environment(config::Keys& keys);

}  // namespace qrl::train
