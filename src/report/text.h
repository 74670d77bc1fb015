// Owns a run's report as plain text: verdicts, then a table of metrics.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_files.h"

namespace qrl::report {

/// Returns each run's state and verdicts, then a table of the panels' metrics: last value, and mean over the last
/// quarter, with the digits of scripts/compare_runs. For two runs it has also the differences.
std::string report_text(const std::vector<RunFiles>& runs);

/// Returns the values as a line of eight heights, at most `width` characters, the newest last. More values are averaged
/// in neighboring groups; values that are not finite are skipped.
std::string sparkline(std::span<const double> values, std::size_t width);

}  // namespace qrl::report
