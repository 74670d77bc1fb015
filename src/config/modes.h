// Owns the list of modes: each paper's system as defaults of keys (one file each in config/modes). The tables of
// docs/algorithms.md give the sources; "ours" marks a value on which the paper is silent.
#pragma once

#include "config/choice.h"

namespace qrl::config {

Choices modes();

}  // namespace qrl::config
