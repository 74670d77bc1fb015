// Owns what --dry-run says of a run. Knows nothing of running it.
#pragma once

#include "config/reader.h"

namespace qrl::app {

/// Checks the recipe's model, shapes, batch arithmetic and data, and prints what a run of `num_ranks` processes would
/// do and need. Allocates no weights and writes nothing. What is not on this machine (weights, tokenizer, data files)
/// is listed as absent and what depends on it not checked, so that a run elsewhere can be planned here.
void describe_run(const config::LoadedRecipe& loaded, int num_ranks);

}  // namespace qrl::app
