// Owns the output of --dry-run.
#pragma once

#include "config/reader.h"

namespace qrl::app {

struct PlanOptions {
  int num_ranks = 1, num_here = 1;
  bool allow_absent = false, allow_change = false;
};

/// Checks the recipe's model, shapes, batch arithmetic and data, and prints the plan of a run of `num_ranks` processes:
/// memory, disk, and the checkpoint to resume from. Allocates no weights and writes nothing.
///
/// Reports what this machine lacks (weights, tokenizer, data files, a GPU) as absent and skips the checks that depend
/// on it. Then throws an input error unless `allow_absent`. Also throws one if the plan exceeds this machine's memory
/// with `num_here` processes on it. `allow_change` has the effect of --allow-change.
void describe_run(const config::LoadedRecipe& loaded, const PlanOptions& options);

}  // namespace qrl::app
