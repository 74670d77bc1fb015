// Owns what a comparison concludes from its rows, and how it is shown.
#pragma once

#include <string>
#include <vector>

#include "compare/rows.h"

namespace qrl::compare {

struct Verdict {
  const Contrast* contrast = nullptr;
  std::vector<std::int64_t> seeds;
  std::vector<double> differences;     ///< of each seed: first minus second; of logarithms for Kind::ratio
  double mean = 0, low = 0, high = 0;  ///< mean difference and its 95 % interval; for Kind::ratio, ratios
  double p = 0, adjusted = 0;          ///< p-value, and Holm's in the family; NaN without a test
  double decides = 0;                  ///< effect, ratio or margin that this number of seeds decides with power 0.8
  std::string word;    ///< better, worse, equal within the margin, not worse, undecided, descriptive or no value
  std::string reason;  ///< why there is no decision, or ""
};

/// Returns the verdicts in the plan's order. Throws an input error if a run is missing, or if require_comparable does.
/// A run without an endpoint's value leaves its contrasts without a verdict.
std::vector<Verdict> judge(const Plan& plan, const ArmRuns& runs);

/// Returns the terminal's tables: each arm's means over its seeds, verdicts, and why contrasts are undecided.
std::string verdicts_text(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts);
/// Returns the title of the table with a line a run, and such a line.
std::string runs_title(const Plan& plan);
std::string run_line(const Plan& plan, const std::string& arm, std::int64_t seed, const ArmRun& run);

/// Returns the text of verdict.json. Equal rows give equal texts.
std::string verdicts_json(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts);
/// Returns the HTML page: verdict.json with the endpoints' curves of all runs.
std::string verdicts_page(const Plan& plan, const ArmRuns& runs, const std::vector<Verdict>& verdicts);

}  // namespace qrl::compare
