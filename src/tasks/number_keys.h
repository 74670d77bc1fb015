#pragma once

#include "config/option.h"

namespace qrl::tasks {

/// These are functions, because static initializers in other files use them before main.
inline config::IntegerParam max_number_key() { return {"max_number", {1}, 20, "numbers are 1 … max_number"}; }
inline config::IntegerParam max_target_key() { return {"max_target", {1}, 100, "results are 1 … max_target"}; }

}  // namespace qrl::tasks
