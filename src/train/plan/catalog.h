// Owns the program's catalog: the lists of the folders below, joined.
#pragma once

#include "config/keys/keys.h"

namespace qrl::train {

/// Returns all words that the program knows; a test may add to a copy.
config::Catalog catalog();
const config::Keys& keys();

}  // namespace qrl::train
