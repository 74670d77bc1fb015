// Owns the keys of a cold start from files.
#pragma once

#include <vector>

#include "config/keys/key.h"

namespace qrl::config {

/// Adds sft.train_files and its dependent keys.
void add_sft_files(std::vector<Key>& list);

}  // namespace qrl::config
