// Owns the keys of a cold start from files. Knows nothing of what is read from them.
#pragma once

#include <vector>

#include "config/keys.h"

namespace qrl::config {

/// sft.train_files and the keys that have an effect with them alone.
void add_sft_files(std::vector<Key>& list);

}  // namespace qrl::config
