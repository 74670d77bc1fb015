#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/sft_rows.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Holds content hashes of a run's inputs.
struct Inputs {
  std::string model;          ///< hash of config; also of the weights if they are KL reference or adapters' base
  std::string train_prompts;  ///< hash of tokens, ground truths and data sources, in order
  std::string held_out_prompts;
  std::string sft_rows = {};  ///< hash of tokens and learned flags of sft.train_files; "" without files
  std::string weights = {};   ///< model::weights_hash, if the run reads the weights later; not stored in checkpoints
};

/// Hashes a run's inputs. Collective. Throws an input error on every rank if the ranks' recipes (except paths and
/// threads), models or prompts differ.
Inputs fingerprint(const Recipe& recipe, const Policy& policy, const PromptSet& prompts,
                   const std::vector<PromptSet>& held_out, const SftRows& sft_rows, dist::Collectives& world);

}  // namespace qrl::train
