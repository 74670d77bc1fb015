// Owns a comparison's rows: one per run and step, in a gzipped CSV file that holds its plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compare/plan.h"
#include "report/rows.h"

namespace qrl::compare {

/// Holds one finished run of an arm.
struct ArmRun {
  std::string isa, program;
  std::vector<report::Row> rows;  ///< only the plan's columns; exported scores are in the last row
};
/// Maps arm and seed to the finished run.
using ArmRuns = std::map<std::pair<std::string, std::int64_t>, ArmRun>;

struct PlanRows {
  Plan plan;
  ArmRuns runs;
};

/// Returns the plan's columns of a finished run folder. Throws an input error if its rows do not end at the plan's last
/// step, or if its sessions used several instruction sets or programs.
ArmRun read_arm_run(const Plan& plan, const std::filesystem::path& dir);

/// Reads row files of one plan, gzipped or plain. Throws an input error for other plans, damaged or missing rows, and a
/// run with different rows in two files.
PlanRows read_plan_rows(std::span<const std::filesystem::path> files);
/// Replaces `file` atomically. Equal rows give equal bytes.
void write_plan_rows(const std::filesystem::path& file, const Plan& plan, const ArmRuns& runs);

/// Throws an input error unless all runs have one program, and the runs of each seed that a contrast pairs have one
/// instruction set.
void require_comparable(const Plan& plan, const ArmRuns& runs);

/// Returns the endpoint of a run: the mean over its steps, in fp64. NaN if a named step, or every step of a range, has
/// no value.
double endpoint_of(const Endpoint& endpoint, const ArmRun& run);
/// Returns the first step whose groups are not all flat; 0 if there is none.
std::int64_t first_step_with_signal(const ArmRun& run);

}  // namespace qrl::compare
