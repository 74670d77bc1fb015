#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_files.h"

namespace qrl::report {

/// Returns each run's state and verdicts, followed by the metrics of the panels. For each metric, shows the last value
/// and the mean over the last quarter. For two runs, also shows the differences.
std::string report_text(const std::vector<RunFiles>& runs);

/// Returns the finite values as characters of eight heights, the newest last. More than `width` values are averaged in
/// groups.
std::string sparkline(std::span<const double> values, std::size_t width);

}  // namespace qrl::report
