#pragma once

#include "config/keys/key.h"

namespace qrl::train {

config::Catalog catalog();
const config::Keys& keys();

}  // namespace qrl::train
