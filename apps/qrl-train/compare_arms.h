#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/plan.h"
#include "config/reader.h"
#include "dist/collectives.h"

namespace qrl::app {

/// Returns the KEY=VALUE settings of one run over the plan's base recipe: the arm's keys and its seeds.
std::vector<std::string> settings_of(const compare::Plan& plan, const compare::Arm& arm, std::int64_t seed);

/// Loads each arm's recipe and fills plan.base_keys. Throws an input error unless the arms differ, have equal steps and
/// score alike, this machine can run them, and their runs write the endpoints' metrics.
void check_arms(compare::Plan& plan, dist::Collectives& world);

/// Returns whether docs/reference/metrics.md lists the metric. Its SOURCE, NAME, N and K stand for any name or number.
bool is_listed_metric(const std::string& metric);

}  // namespace qrl::app
