// Owns what --dry-run says of a run. Knows nothing of running it.
#pragma once

#include "config/reader.h"

namespace qrl::app {

struct PlanOptions {
  int num_ranks = 1, num_here = 1;
  bool allow_absent = false, allow_change = false;
};

/// Checks the recipe's model, shapes, batch arithmetic and data, and prints what a run of `num_ranks` processes would
/// do and need: memory, disk, and from which checkpoint it would go on, or why a start would refuse to. Allocates no
/// weights and writes nothing. What is not on this machine (weights, tokenizer, data files, a GPU) is listed as absent
/// and what depends on it not checked; then an input error, unless `allow_absent`: a run elsewhere can be planned here.
/// So is a plan that this machine's memory cannot hold, for `num_here` processes on it. `allow_change`: as a start with
/// --allow-change.
void describe_run(const config::LoadedRecipe& loaded, const PlanOptions& options);

}  // namespace qrl::app
