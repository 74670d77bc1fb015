// Owns the list of a recipe's keys, one declaration each. The reader, --help-all, the resolved recipe and the reference
// page are generated from it. A catalog adds the words of losses, corrections and modes, and the keys that belong to
// one of them.
#pragma once

#include "config/keys/key.h"

namespace qrl::config {

/// Returns all keys of a recipe with the words of `catalog`.
Keys declared_keys(Catalog catalog);

}  // namespace qrl::config
