// Owns the keys of low-rank adapters and the rules between them and others. Knows nothing of how they are trained.
#pragma once

#include <vector>

#include "config/keys.h"
#include "config/rule_book.h"

namespace qrl::config {

/// Adds the section `lora`.
void add_lora(std::vector<Key>& list);

void check_lora(const Recipe& recipe, RuleBook& rules);

}  // namespace qrl::config
