// Owns the catalog of the program: the lists of the folders below, joined. Knows no choice.
#pragma once

#include "config/keys.h"

namespace qrl::train {

/// Returns every word that the program knows. A test may add to a copy.
config::Catalog catalog();
/// Returns the keys of recipes with that catalog.
const config::Keys& keys();

}  // namespace qrl::train
