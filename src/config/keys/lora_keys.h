// Owns the keys of low-rank adapters and their rules.
#pragma once

#include <vector>

#include "config/keys/key.h"
#include "config/keys/rule_book.h"

namespace qrl::config {

void add_lora(std::vector<Key>& list);

void check_lora(const Recipe& recipe, RuleBook& rules);

}  // namespace qrl::config
