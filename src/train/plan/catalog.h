#pragma once

#include "config/keys/key.h"

namespace qrl::train {

/// Returns all words that the program accepts; a test may extend a copy.
config::Catalog catalog();
const config::Keys& keys();

}  // namespace qrl::train
