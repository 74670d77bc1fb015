#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rollout/rollout.h"

namespace qrl::rollout {

/// Returns a group's samples that enter the loss: the judged ones if at least two, or in a group of one. Others get
/// `teaches` = false and advantage 0.
std::vector<Rollout*> choose_teaching(std::span<Rollout> group);

/// Mean and standard deviation (ddof 1; 0 for fewer than two values) in fp64.
struct Spread {
  std::int64_t count = 0;
  double mean = 0, std = 0;
};
/// Returns the spread of all ranks' values, summed in ascending order, so that ranks do not matter. Collective.
Spread spread_of_all(std::span<const double> mine, dist::Collectives& world);

}  // namespace qrl::rollout
