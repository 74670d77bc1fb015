#pragma once

#include <filesystem>
#include <functional>

#include "compare/rows.h"

namespace qrl::app {

struct RunsOptions {
  std::filesystem::path out;
  std::int64_t jobs = 1;
  std::int64_t part = 1, num_parts = 1;  ///< which seeds to run: every num_parts-th
  std::function<void(const std::string& arm, std::int64_t seed)> on_end;
};

/// Trains the plan's runs that `runs` lacks, seed by seed, each as a process of this program in its own folder of
/// `out`. After each, adds its rows to `runs` and to out/rows.csv.gz. An interrupted run resumes from its checkpoint.
/// Throws an input error if a run fails, and a `stopped` error after a signal, when all runs have checkpoints.
void train_arms(const compare::Plan& plan, const RunsOptions& options, compare::ArmRuns& runs);

}  // namespace qrl::app
