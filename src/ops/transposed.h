// Contract of int8 codes laid out the other way round: the right operands with which a backward pass in int8 multiplies
// its encoded gradients. Knows nothing of learning.
#pragma once

#include "ops/linear.h"

namespace qrl::ops {

/// An empty int8 layer [out, in] whose scales are all 1.
PackedLinear make_unscaled(std::int64_t out, std::int64_t in);

/// Writes the codes of `weight`, an int8 layer [out, in] (its scales are left behind), to `to`, make_unscaled(in, out).
/// Splits over the team.
void transpose_codes(base::Team& team, const PackedLinear& weight, PackedLinear& to);

/// Writes the codes of all rows of `x` (int8, [rows, width]; their scales are left behind) to `to`,
/// make_unscaled(width, rows). Splits over the team.
void transpose_codes(base::Team& team, const Activations& x, PackedLinear& to);

}  // namespace qrl::ops
