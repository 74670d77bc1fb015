// Owns the selection of the samples that teach, and the spread of a number over all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rollout/rollout.h"

namespace qrl::rollout {

/// Returns the samples of a group that teach: the judged ones if there are at least two, or if the group has size one.
/// The others get `teaches` = false and advantage 0.
std::vector<Rollout*> choose_teaching(std::span<Rollout> group);

/// Holds mean and standard deviation (ddof 1; 0 for fewer than two values), computed in fp64.
struct Spread {
  std::int64_t count = 0;
  double mean = 0, std = 0;
};
/// Returns the spread of the values of all ranks. Values are summed in ascending order, so the bits do not depend on
/// the number of ranks. Collective.
Spread spread_of_all(std::span<const double> mine, dist::Collectives& world);

}  // namespace qrl::rollout
