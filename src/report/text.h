// Owns a run's report as plain text: verdicts, then a table of metrics. Knows nothing of terminals.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_files.h"

namespace qrl::report {

/// Each run's state and verdicts; then for each metric of a panel its last value and its mean over the last quarter of
/// its values, in the digits of scripts/compare_runs; of two runs their differences too.
std::string report_text(const std::vector<RunFiles>& runs);

/// The values as a line of eight heights, at most `width` characters, the newest at its end; means of neighbors where
/// there are more values. Values that are not finite are left out.
std::string sparkline(std::span<const double> values, std::size_t width);

}  // namespace qrl::report
