// Owns the keys that select what enters the loss: advantages, teacher, masks of samples and tokens, rejection.
#pragma once

#include <vector>

#include "config/keys.h"

namespace qrl::config {

/// Adds the keys that turn rewards into advantages.
void add_estimator(std::vector<Key>& list, const Catalog& catalog);
/// Adds the keys that select samples and tokens for the loss.
void add_selection(std::vector<Key>& list);
/// Adds the keys of rejection, which complements a correction's weights.
void add_rejection(std::vector<Key>& list);

}  // namespace qrl::config
