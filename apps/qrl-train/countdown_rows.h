// Owns the report on countdown rows of a data file that have no solution. Knows nothing of how a file is read.
#pragma once

#include <string>
#include <vector>

#include "data/row.h"
#include "tasks/countdown/solver.h"

namespace qrl::app {

/// A line that names rows without a solution, and one about rows with too many numbers to be searched; empty where
/// there is neither. Rows whose ground truth is another task's are not looked at.
std::string describe_unsolvable_countdown(const std::vector<data::PromptRow>& rows, tasks::Numbers numbers);

}  // namespace qrl::app
