// Owns equations without their denominators. Knows nothing of how answers are compared.
#pragma once

#include <optional>

#include "reward/math/evaluate.h"
#include "reward/math/tree.h"

namespace qrl::reward::math {

/// The numerator of left − right of an equation between rational functions, of which `value` is the value: a polynomial
/// that is zero where the equation holds and nowhere else. Nothing where a denominator may be zero at a zero of it,
/// as in y = (x² − 1)/(x − 1), where it is (x − 1)(y − x − 1): to distinguish them, the factors of denominators must be
/// linear in a variable with a constant factor, and the numerator a constant other than 0 wherever one is zero, as that
/// of y = 1/x is −1 at x = 0.
struct ClearedEquation {
  Value value;
  bool had_denominators = false;
};
std::optional<ClearedEquation> clear_denominators(const Tree& tree, NodeIdx left, NodeIdx right, Algebra& algebra,
                                                  Budget& budget);

}  // namespace qrl::reward::math
