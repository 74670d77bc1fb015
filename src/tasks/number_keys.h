#pragma once

#include "config/choice.h"

namespace qrl::tasks {

/// A key of several generators. A function, because other files' static lists use it before main.
inline config::OwnKey max_number_key() {
  return {"max_number", config::OwnKey::Integers{1}, 20, "numbers are 1 … max_number"};
}
inline config::OwnKey max_target_key() {
  return {"max_target", config::OwnKey::Integers{1}, 100, "results are 1 … max_target"};
}

}  // namespace qrl::tasks
