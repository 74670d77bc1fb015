#pragma once

#include <string>
#include <vector>

#include "data/row.h"
#include "tasks/countdown/solver.h"

namespace qrl::app {

/// Returns a line each for countdown rows without a solution, and with too many numbers to search, if any. Skips other
/// tasks.
std::string describe_unsolvable_countdown(const std::vector<data::PromptRow>& rows, tasks::Numbers numbers);

}  // namespace qrl::app
