// Owns the keys of the rotation of quantized matrices' inputs (quant/rotation.h), what auto means of them, and the
// rules between them and others. Knows no model: which widths a block fits is model/snapshot's.
#pragma once

#include <vector>

#include "config/keys.h"
#include "config/rule_book.h"

namespace qrl::config {

/// Adds quant.rollout.rotation and quant.rollout.rotation_block. Reading the recipe turns auto into none where no model
/// can have a rotation.
void add_rotation(std::vector<Key>& list);

void check_rotation(const Recipe& recipe, RuleBook& rules);

}  // namespace qrl::config
