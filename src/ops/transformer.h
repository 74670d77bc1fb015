// Small ops of a forward pass on packed rows. SPMD as in ops/linear.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/gate.h"
#include "base/threads.h"
#include "base/view.h"
#include "ops/linear.h"

namespace qrl::ops {

/// Looks up x[row, :] = factor · table[tokens[row], :] in fp32. The table is [V, D] in bf16 or fp32. Throws an internal
/// error for a token beyond V.
void embed(base::Team& team, const base::View& table_VD, const std::int32_t* tokens, base::Range rows, float* x_ND,
           float factor = 1);

/// Adds factor · y to x, both fp32 [*, width]. With a gain, adds factor · y · gain / sqrt(mean(y²) + eps); the mean is
/// summed as in rms_norm. Products are rounded before they are added.
struct BranchSum {
  std::int64_t width = 0;
  const float* gain = nullptr;  ///< [width]; null: no norm
  float eps = 0, factor = 1;
};
void add_branch(base::Team& team, const BranchSum& sum, const float* y_ND, base::Range rows, float* x_ND);

/// Computes out = quantize(x · gain / sqrt(mean(x²) + eps)) for x, fp32 [*, out.width]. The mean is summed in fp32 in a
/// fixed order. `also`, unless null, receives the same values in its own format.
void rms_norm(base::Team& team, const float* x_ND, const float* gain_D, float eps, base::Range rows, Activations& out,
              Activations* also = nullptr);

/// Computes out = quantize(activation(gate) · up). halves: fp32 [*, 2F], gate first; F = out.width. `also` as in
/// rms_norm.
void swiglu(base::Team& team, base::Gate activation, const float* halves_N2F, base::Range rows, Activations& out,
            Activations* also = nullptr);

/// Makes the table [max_positions, E] of the angles position · theta^(−2i/E): E/2 cosines, then E/2 sines, computed in
/// fp64 and stored as fp32.
base::Buffer make_rope_table(std::int64_t max_positions, std::int64_t head_dim, double theta);
/// Does the same for the angles position · inverse_frequencies[i], and multiplies entries by `scale`. E is twice the
/// number of frequencies.
base::Buffer make_rope_table(std::int64_t max_positions, std::span<const double> inverse_frequencies, double scale);

}  // namespace qrl::ops
