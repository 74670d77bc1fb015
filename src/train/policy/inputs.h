// Owns the fingerprint of a run's inputs, because files may change under the same name.
#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/sft_rows.h"

namespace qrl::train {

/// Hashes of contents (state/hash.h).
struct Inputs {
  std::string model;          ///< config, and weights of a KL reference or an adapter's base
  std::string train_prompts;  ///< tokens, ground truths and data sources, in order
  std::string held_out_prompts;
  std::string sft_rows = {};  ///< tokens of sft.train_files, with those that are learned; "" without files
  std::string weights = {};   ///< model::weights_hash, if the run reads the model again; not in checkpoints
};

/// Hashes a run's inputs, including the weights if the run reads them again. Collective. Throws an input error on every
/// rank if recipes (except paths), models or prompts differ from the first rank's.
Inputs fingerprint(const config::Recipe& recipe, const Policy& policy, const PromptSet& prompts,
                   const std::vector<PromptSet>& held_out, const SftRows& sft_rows, dist::Collectives& world);

}  // namespace qrl::train
