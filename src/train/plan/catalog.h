#pragma once

#include "config/keys/key.h"

namespace qrl::train {

/// Returns the options of every key.
config::Catalog catalog();
const config::Keys& keys();

}  // namespace qrl::train
