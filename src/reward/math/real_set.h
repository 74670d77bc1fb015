// Owns sets of real numbers: unions of intervals and points, and which one a tree describes. Knows nothing of how
// answers are compared.
#pragma once

#include <optional>
#include <vector>

#include "reward/math/evaluate.h"

namespace qrl::reward::math {

struct Endpoint {
  Value value;
  long double real = 0;  ///< ±∞ for infinite ones
  bool closed = false;
};

struct Interval {
  Endpoint low, high;  ///< low ≤ high; both closed when equal
};

/// Disjoint intervals in ascending order that do not touch.
using RealSet = std::vector<Interval>;

/// Nothing when the value is no real constant.
std::optional<Endpoint> endpoint(const Value& value, bool closed);
RealSet all_reals(const Algebra& algebra);
RealSet unite(RealSet a, const RealSet& b);
RealSet complement(const Algebra& algebra, const RealSet& a);
RealSet intersect(const Algebra& algebra, const RealSet& a, const RealSet& b);
bool equal(const RealSet& a, const RealSet& b) noexcept;

/// The set that a tree describes: intervals, finite sets, unions and differences of sets, inequalities and memberships
/// of one variable that stands alone (a < x ≤ b, |x| < a, x ≠ a), ℝ, ∅. Nothing for anything else.
std::optional<RealSet> real_set(const Tree& tree, NodeIdx idx, Evaluator& evaluator);

}  // namespace qrl::reward::math
