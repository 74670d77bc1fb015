// Owns what --dry-run says of a run. Knows nothing of running it.
#pragma once

#include "config/reader.h"

namespace qrl::app {

struct PlanOptions {
  int num_ranks = 1, num_here = 1;
  bool allow_absent = false, allow_change = false;
};

/// Checks the recipe's model, shapes, batch arithmetic and data, and prints the plan of a run of `num_ranks` processes.
/// The plan lists memory, disk, and the checkpoint that the run would resume from, or why a start would refuse.
/// Allocates no weights and writes nothing.
///
/// Lists what this machine lacks (weights, tokenizer, data files, a GPU) as absent, and skips the checks that depend on
/// it. Then throws an input error, unless `allow_absent`: a run elsewhere can be planned here. Throws it also for a
/// plan that exceeds this machine's memory with `num_here` processes on it. `allow_change`: as a start with
/// --allow-change.
void describe_run(const config::LoadedRecipe& loaded, const PlanOptions& options);

}  // namespace qrl::app
