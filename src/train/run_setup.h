// Owns the list of what a run is given: read by every phase, changed by none.
#pragma once

#include <string>
#include <vector>

#include "config/recipe.h"
#include "dist/collectives.h"
#include "tasks/verifier.h"
#include "train/adapters.h"
#include "train/inputs.h"
#include "train/prompts.h"
#include "train/run_folder.h"
#include "train/session.h"
#include "train/sft_rows.h"

namespace qrl::learner {
class Learner;
}

namespace qrl::train {

/// Everything outlives the run.
struct RunSetup {
  const config::Recipe& recipe;
  const std::string& resolved_recipe;  ///< YAML
  const Inputs& inputs;
  dist::Collectives& world;
  const Policy& policy;
  const tasks::Verifier& verifier;
  const PromptSet& prompts;
  const std::vector<PromptSet>& held_out;
  const RunFolder* folder;              ///< null on all ranks but the first
  learner::Learner* teacher = nullptr;  ///< of algorithm.teacher; null without one
  const SftRows* sft_rows = nullptr;    ///< of sft.train_files; null or empty: there are none
  const AdapterBase* base = nullptr;    ///< of a run that trains adapters, complete once the cold start is done
};

}  // namespace qrl::train
