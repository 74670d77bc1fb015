// Owns what --dry-run says of a run. Knows nothing of running it.
#pragma once

#include "config/reader.h"

namespace qrl::app {

/// Checks the recipe's model, shapes, batch arithmetic and data, and prints what a run of `num_ranks` processes would
/// do and need: memory, disk, and from which checkpoint it would go on, or why a start would refuse to. Allocates no
/// weights and writes nothing. What is not on this machine (weights, tokenizer, data files, a
/// GPU) is listed as absent and what depends on it not checked; then an input error, unless `allow_absent`: a run
/// elsewhere can be planned here. `allow_change`: as a start with --allow-change.
void describe_run(const config::LoadedRecipe& loaded, int num_ranks, bool allow_absent, bool allow_change);

}  // namespace qrl::app
