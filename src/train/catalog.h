// Owns the catalog of the program: the lists of the folders below, joined. Knows no choice.
#pragma once

#include "config/keys.h"

namespace qrl::train {

/// Every word that the program knows. A test may add to a copy.
config::Catalog catalog();
/// The keys of recipes with that catalog.
const config::Keys& keys();

}  // namespace qrl::train
