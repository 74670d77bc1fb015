// Contract of the matrix product y = x · Wᵀ (+ bias) in every format, its packed weights and its encoded inputs.
// Knows nothing of models. Every op here and in the neighbouring headers is called by all members of a team together
// (SPMD): it splits its own work over them and has no barrier inside, so the caller puts team.barrier() between an op
// and the next one that reads its output. Results depend on neither the team's size nor on the other rows of a call:
// each output row has one fixed order of operations on an ISA path.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/threads.h"
#include "quant/format.h"

namespace qrl::ops {

/// Output columns per panel, on every ISA path. Panels hold their weights in the order the kernels read them:
/// [out/64][in/4][64][4] int8, [out/64][in/2][64][2] bf16, [out/64][in][64] fp32; both dimensions zero-padded.
inline constexpr std::int64_t kPanelColumns = 64;

/// A linear layer's weights as the kernels read them. Owns its memory.
struct PackedLinear {
  quant::Format format = quant::Format::f32;
  std::int64_t out = 0, in = 0;
  base::Buffer panels;       ///< see kPanelColumns
  base::Buffer scales;       ///< fp32 [out, padded to panels]; int8 only
  base::Buffer column_sums;  ///< int32 [out, padded]: 128·Σ codes, what the u8·s8 instruction adds too much; int8 only
  base::Buffer bias;         ///< fp32 [out, padded]; empty without one
};

/// Makes an empty (zero) PackedLinear of this shape.
PackedLinear make_packed_linear(quant::Format format, std::int64_t out, std::int64_t in, bool has_bias);

/// Encodes `rows` output rows of W, fp32 row-major [rows, in] on the CPU, to rows first_row … of `packed`. Splits over
/// the team; distinct row ranges may be packed without a barrier only when they share no panel.
/// Returns false when a weight this member looked at is not finite.
bool pack_rows(base::Team& team, const float* weight, std::int64_t rows, std::int64_t first_row, PackedLinear& packed);

/// Decodes rows of a packed layer back to fp32 row-major: what the learner's own products and the tests read.
void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, float* weight);

/// Rows of activations encoded for a format: the left operand of `linear`. Owns its memory; sized once for max_rows.
struct Activations {
  Activations() = default;
  Activations(quant::Format format_, std::int64_t num_rows, std::int64_t width_);
  quant::Format format = quant::Format::f32;
  std::int64_t width = 0;   ///< in
  std::int64_t stride = 0;  ///< elements from row to row, width padded to 64
  base::Buffer codes;       ///< [max_rows, stride] of fp32, bf16 or int8, zero beyond width
  base::Buffer scales;      ///< fp32 [max_rows]; int8 only

  std::int64_t max_rows() const { return codes.shape().rank() == 0 ? 0 : codes.shape()[0]; }
  void* row(std::int64_t row_idx) const;  ///< codes of a row
};

/// Encodes one row of fp32, by the calling thread alone; what `encode` and the fused ops do per row.
void encode_row(const float* x, std::int64_t row_idx, Activations& out);

/// Encodes rows [rows.begin, rows.end) of x (fp32, row-major, `width` per row) into `out`; splits rows over the team.
void encode(base::Team& team, const float* x, base::Range rows, Activations& out);

/// The values that rows of codes stand for, fp32 row-major, `width` per row: what a backward pass multiplies with.
/// Splits rows over the team.
void decode(base::Team& team, const Activations& codes, base::Range rows, float* x);

/// y[row, :] = x[row, :] · Wᵀ + bias, or y += that (a residual) when `accumulate`; rows in [rows.begin, rows.end);
/// y is fp32 row-major, `out` per row. Splits W's panels over the team. Accumulation, in order of the input index:
/// fp32: fma in fp32 (the portable path rounds the product too). bf16: exact products added in fp32, of each pair of
/// inputs the odd one first, as vdpbf16ps does; avx512 takes and gives subnormals as zero. int8: exact, in int32.
void linear(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
            float* y);

}  // namespace qrl::ops
