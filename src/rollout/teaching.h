// Owns what estimators of advantages share: which samples of a group teach, and the spread of a number over all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rollout/rollout.h"

namespace qrl::rollout {

/// The samples of a group that teach: those that were judged, if they are two or more, or if the group is of one. The
/// others get `teaches` false and advantage 0.
std::vector<Rollout*> choose_teaching(std::span<Rollout> group);

/// Mean and deviation (ddof 1; 0 of fewer than two) in fp64.
struct Spread {
  std::int64_t count = 0;
  double mean = 0, std = 0;
};
/// Of the values of all ranks in ascending order, so that the number of ranks does not change a bit. Collective.
Spread spread_of_all(std::span<const double> mine, dist::Collectives& world);

}  // namespace qrl::rollout
