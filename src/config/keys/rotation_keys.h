// Owns the keys of quantized matrices' input rotation (quant/rotation.h) and their rules. model/snapshot knows which
// widths fit.
#pragma once

#include <vector>

#include "config/keys/key.h"
#include "config/keys/rule_book.h"

namespace qrl::config {

/// Adds quant.rollout.rotation and rotation_block; reading replaces auto by none if no model can have a rotation.
void add_rotation(std::vector<Key>& list);

void check_rotation(const Recipe& recipe, RuleBook& rules);

}  // namespace qrl::config
