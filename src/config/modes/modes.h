// Owns the list of modes: each paper's system as defaults, one file each in config/modes/modes. docs/algorithms.md
// gives sources; "ours" marks values that the paper lacks.
#pragma once

#include "config/choice.h"

namespace qrl::config {

Choices modes();

}  // namespace qrl::config
