// Contracts of the small ops around the matmuls in a transformer's forward pass, on packed rows; attention has
// a header of its own.
// SPMD as ops/linear.h says: all members call, rows are split, no barrier inside, fixed order per row.
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "base/view.h"
#include "ops/linear.h"

namespace qrl::ops {

/// x[row, :] = table[tokens[row], :] as fp32. table: [V, D] bf16 or fp32.
void embed(base::Team& team, const base::View& table_VD, const std::int32_t* tokens, base::Range rows, float* x_ND);

/// out = quantize(x · gain / sqrt(mean(x²) + eps)); mean in fp32 in a fixed order. x: [*, width] fp32, width =
/// out.width. `also`, if there is one, gets the same values in its format.
void rms_norm(base::Team& team, const float* x_ND, const float* gain_D, float eps, base::Range rows, Activations& out,
              Activations* also = nullptr);

/// out = quantize(silu(gate) · up); halves: [*, 2F] fp32, gate first; F = out.width. `also` as above.
void swiglu(base::Team& team, const float* halves_N2F, base::Range rows, Activations& out, Activations* also = nullptr);

/// Cosines and sines of position · theta^(−2i/E), i in [0, E/2), computed in fp64, stored fp32:
/// table [max_positions, E]: E/2 cosines then E/2 sines.
base::Buffer make_rope_table(std::int64_t max_positions, std::int64_t head_dim, double theta);
/// The same of position · inverse_frequencies[i], all of it times `scale`; E = 2 · frequencies.
base::Buffer make_rope_table(std::int64_t max_positions, std::span<const double> inverse_frequencies, double scale);

}  // namespace qrl::ops
