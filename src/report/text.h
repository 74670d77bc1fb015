// Owns a run's report as plain text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_files.h"

namespace qrl::report {

/// Returns each run's state and verdicts, then the panels' metrics: last value, and mean over the last quarter, with
/// scripts/accept/compare_runs' digits; of two runs also the differences.
std::string report_text(const std::vector<RunFiles>& runs);

/// Returns the finite values as eight heights, at most `width` characters, the newest last; more values are averaged in
/// neighboring groups.
std::string sparkline(std::span<const double> values, std::size_t width);

}  // namespace qrl::report
