// Owns the keys of the rotation of quantized matrices' inputs (quant/rotation.h): the meaning of auto, and the rules
// with other keys. model/snapshot knows which widths a block fits.
#pragma once

#include <vector>

#include "config/keys.h"
#include "config/rule_book.h"

namespace qrl::config {

/// Adds quant.rollout.rotation and quant.rollout.rotation_block. Reading the recipe replaces auto by none if no model
/// can have a rotation.
void add_rotation(std::vector<Key>& list);

void check_rotation(const Recipe& recipe, RuleBook& rules);

}  // namespace qrl::config
