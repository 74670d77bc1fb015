// Owns the parts of a recipe's table of keys: sections that have a file of their own.
#pragma once

#include <string_view>
#include <vector>

#include "config/keys/key_types.h"

namespace qrl::config {

using List = std::vector<Key>;

void add_quant(List& list);
/// Adds algorithm and rollout_correction, with own keys of losses and corrections.
void add_objective(List& list, const Catalog& catalog);
/// Adds `reward`: verifiers' keys, the command's, and scores.
void add_reward(List& list, const Choices& verifiers);

Type<WeightFormat> weight_format();

/// Returns whether a GPU reads the sampler's matrices, where rotation is unsupported.
bool reads_matrices_on_gpu(const Recipe& recipe);

inline constexpr std::string_view kCommandVerifier = "command";  ///< a program of the user

/// Returns whether the recipe judges with verifier `word`, for all or some data sources.
bool judges(const Recipe& recipe, std::string_view word);

}  // namespace qrl::config
