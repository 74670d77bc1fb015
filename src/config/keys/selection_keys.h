// Owns the keys that select the loss's inputs: advantages, teacher, masks of samples and tokens, rejection.
#pragma once

#include <vector>

#include "config/keys/key.h"

namespace qrl::config {

/// Adds keys that turn rewards into advantages.
void add_estimator(std::vector<Key>& list, const Catalog& catalog);
/// Adds keys that select samples and tokens.
void add_selection(std::vector<Key>& list);
/// Adds keys of rejection, beside a correction's weights.
void add_rejection(std::vector<Key>& list);

}  // namespace qrl::config
