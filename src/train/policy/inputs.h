#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/sft_rows.h"

namespace qrl::train {

/// Holds hashes of a run's inputs by contents (state/hash.h).
struct Inputs {
  std::string model;          ///< hash of config and, for a KL reference or an adapter's base, weights
  std::string train_prompts;  ///< tokens, ground truths and data sources, in order
  std::string held_out_prompts;
  std::string sft_rows = {};  ///< tokens of sft.train_files, and which are learned; "" without files
  std::string weights = {};   ///< model::weights_hash, if the run reads the weights later; not in checkpoints
};

/// Hashes a run's inputs. Collective. Throws an input error on every rank if recipes (except paths), models or prompts
/// differ from the first rank's.
Inputs fingerprint(const config::Recipe& recipe, const Policy& policy, const PromptSet& prompts,
                   const std::vector<PromptSet>& held_out, const SftRows& sft_rows, dist::Collectives& world);

}  // namespace qrl::train
