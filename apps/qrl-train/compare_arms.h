#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/plan.h"
#include "dist/collectives.h"

namespace qrl::app {

/// Returns the KEY=VALUE settings of one run over the plan's base recipe: the arm's keys and its seeds.
std::vector<std::string> settings_of(const compare::Plan& plan, const compare::Arm& arm, std::int64_t seed);

/// Plans each arm's run, and fills plan.steps and the arms' hashes. Throws an input error unless the arms differ, have
/// equal steps and score alike, this machine can run them, and their runs write the endpoints' metrics.
void check_arms(compare::Plan& plan, dist::Collectives& world);

}  // namespace qrl::app
