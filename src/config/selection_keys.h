// Owns the keys of what teaches beside a loss and a correction: advantages, teacher, masks of samples and tokens,
// rejection.
#pragma once

#include <vector>

#include "config/keys.h"

namespace qrl::config {

/// How rewards become advantages.
void add_estimator(std::vector<Key>& list, const Catalog& catalog);
/// Which samples and tokens teach, and whose advantages count.
void add_selection(std::vector<Key>& list);
/// Rejection beside a correction's weights.
void add_rejection(std::vector<Key>& list);

}  // namespace qrl::config
