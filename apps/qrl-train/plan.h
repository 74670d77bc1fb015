#pragma once

#include "train/recipe/load.h"

namespace qrl::app {

struct PlanOptions {
  int num_ranks = 1, num_here = 1;
  bool allow_absent = false, allow_change = false;
};

/// Checks a recipe's model, shapes, batch arithmetic and data. Prints a run's memory and disk use, and which checkpoint
/// it would resume from. Writes nothing.
///
/// Reports what this machine lacks (weights, tokenizer, data files, a GPU), and skips checks that need it. Afterwards,
/// throws an input error unless `allow_absent`. Also throws one if `num_here` processes exceed this machine's memory.
/// `allow_change` is the option --allow-change.
void describe_run(const train::LoadedRecipe& loaded, const PlanOptions& options);

}  // namespace qrl::app
