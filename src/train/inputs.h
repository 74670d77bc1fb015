// Owns the fingerprint of what a run reads beside its recipe: a file may change while its name in the recipe does not.
#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "train/prompts.h"
#include "train/session.h"
#include "train/sft_rows.h"

namespace qrl::train {

/// Hashes of contents (state/hash.h). Equal ones: the run reads the same.
struct Inputs {
  std::string model;          ///< its config, and the weights if they are a KL reference or the base of adapters
  std::string train_prompts;  ///< tokens, ground truths and sources, in order
  std::string held_out_prompts;
  std::string sft_rows = {};  ///< of sft.train_files: tokens and what is learned, in order; "": no files
  std::string weights = {};  ///< of the model's weights alone (model::weights_hash), where they count; in no checkpoint
};

/// Reads the weights once if they count. Collective. Throws an input error on every rank if a rank has another recipe
/// (paths apart), model or prompts than the first one. Hosts may have files of their own.
Inputs fingerprint(const config::Recipe& recipe, const Policy& policy, const PromptSet& prompts,
                   const std::vector<PromptSet>& held_out, const SftRows& sft_rows, dist::Collectives& world);

}  // namespace qrl::train
