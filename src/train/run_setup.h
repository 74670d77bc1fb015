// Owns the inputs of a run, read by every phase and never changed.
#pragma once

#include <string>
#include <vector>

#include "config/recipe.h"
#include "dist/collectives.h"
#include "tasks/verifier.h"
#include "train/files/run_folder.h"
#include "train/policy/adapters.h"
#include "train/policy/inputs.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/sft_rows.h"

namespace qrl::learner {
class Learner;
}

namespace qrl::train {

/// Holds references that outlive the run.
struct RunSetup {
  const config::Recipe& recipe;
  const std::string& resolved_recipe;  ///< YAML
  const Inputs& inputs;
  dist::Collectives& world;
  const Policy& policy;
  const tasks::Verifier& verifier;
  const PromptSet& prompts;
  const std::vector<PromptSet>& held_out;
  const RunFolder* folder;              ///< null except on the first rank
  learner::Learner* teacher = nullptr;  ///< algorithm.teacher; null without one
  const SftRows* sft_rows = nullptr;    ///< sft.train_files; null or empty: none
  const AdapterBase* base = nullptr;    ///< of adapters, complete after the cold start
};

}  // namespace qrl::train
