// Owns sets of real numbers: unions of intervals and points, and which one a tree describes. Knows nothing of how
// answers are compared.
#pragma once

#include <optional>
#include <vector>

#include "reward/math/evaluate.h"

namespace qrl::reward::math {

/// A number at which a set changes.
struct Cut {
  Value value;
  long double real;
  bool at, above;  ///< whether the set has it, and what lies between it and the next
};

struct RealSet {
  bool below = false;     ///< whether it has what lies below all cuts
  std::vector<Cut> cuts;  ///< ascending
};

bool equal(const RealSet& a, const RealSet& b) noexcept;

/// The set that a tree describes: intervals, finite sets, unions and differences of sets, inequalities and memberships
/// of one variable that stands alone (a < x ≤ b, |x| < a, x ≠ a), ℝ, ∅. Nothing for anything else.
std::optional<RealSet> real_set(const Node& at, Evaluator evaluator);

}  // namespace qrl::reward::math
