// Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464), as Qwen3.5 has it: attention with a state of fixed size instead
// of keys and values. All arithmetic and sums are fp32.
//
// For head h with key head h / (Hv/Hk), state S of [dk, dv], decay e^g and rate β, a token computes
//   S ← e^g S;  δ = β (v − Sᵀk);  S ← S + k δᵀ;  o = Sᵀq;  out = o · gain / rms(o) · silu(z).
// q, k and v are a causal convolution of each channel over the last tokens, then SiLU; q and k are then divided by
// their length, and q by √dk. g = −exp(a_log) · softplus(a + dt_bias), β = sigmoid(b).
//
// Columns of S never mix before the norm. A column sums over dk in one order, so results depend neither on a team's
// size nor on how a sequence's rows are divided into calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/threads.h"
#include "ops/varlen_attention.h"

namespace qrl::ops {

/// Describes a layer's heads. A row of projections, fp32, has the q heads, k heads, v heads, then the z heads.
struct DeltaShape {
  std::int64_t num_key_heads = 0;    ///< Hk
  std::int64_t num_value_heads = 0;  ///< Hv, a multiple of Hk
  std::int64_t key_dim = 0;          ///< dk
  std::int64_t value_dim = 0;        ///< dv
  std::int64_t conv_width = 0;       ///< number of tokens that the convolution reads, 2 to kMaxConvWidth
  float eps = 0;                     ///< of the norm of o

  /// Returns the number of channels of q, k and v, C.
  std::int64_t channels() const { return 2 * num_key_heads * key_dim + num_value_heads * value_dim; }
  std::int64_t out_width() const { return num_value_heads * value_dim; }
  std::int64_t row_width() const { return channels() + out_width(); }
};
inline constexpr std::int64_t kMaxConvWidth = 4;
/// A head's dk and dv are multiples of kDeltaDimMultiple up to kMaxDeltaDim.
inline constexpr std::int64_t kDeltaDimMultiple = 16, kMaxDeltaDim = 256;

struct DeltaWeights {
  const float* taps_CT = nullptr;  ///< [C, conv_width]; the last tap is the token's own
  const float* a_log_H = nullptr;
  const float* dt_bias_H = nullptr;
  const float* gain_V = nullptr;  ///< [dv], gain of the norm of o
};

/// Returns the bytes of a sequence's state in one layer, a multiple of 64. Each head has S and the last token's update.
/// A ring holds the channels' last conv_width rows before the convolution.
std::int64_t delta_state_bytes(const DeltaShape& shape);

/// Describes adjacent rows of a block that are adjacent tokens of one sequence, from `position` on.
///
/// `state` belongs to the sequence, is aligned to 64 bytes, and is updated. S has a token's update one token late: a
/// run may begin at the position after the last row that the state has seen, or at that row's own position. In the
/// second case the state forgets the row. A run at position 0 ignores what `state` holds.
struct DeltaRun {
  base::Range rows;
  std::int32_t position = 0;
  std::byte* state = nullptr;
};

/// Computes a layer's rows from their projections up to the gate z. SPMD (ops/linear.h). `projections`: [*,
/// row_width()]. `gates_in`: [*, 2·Hv], b of all heads, then a. Writes `out`, [*, Hv·dv].
void delta_net(base::Team& team, const DeltaShape& shape, const DeltaWeights& weights, std::span<const DeltaRun> runs,
               const float* projections, const float* gates_in, float* out);

/// Describes packed sequences of a micro-batch. Prefixes and continuations are as in VarlenAttention: a continuation
/// begins with its prefix's state and last rows.
struct PackedDelta {
  DeltaShape shape;
  DeltaWeights weights;
  const std::int32_t* sequence_starts = nullptr;   ///< S+1 offsets into the rows
  std::int64_t num_sequences = 0;                  ///< S
  const std::uint8_t* continues_prefix = nullptr;  ///< [S]: 1 if the sequence continues a prefix, else 0; null: all 0
  MixedArray projections;                          ///< [N, row_width()]
  const float* gates_in = nullptr;                 ///< [N, 2·Hv], b then a
};

/// Number of tokens between kept states, and of a chunk of the backward pass.
inline constexpr std::int64_t kDeltaChunk = 64;

/// Returns how many states the backward pass needs: one of zeros, one after each prefix that is continued, and one
/// before each chunk of a sequence but its first.
std::int64_t num_kept_states(const PackedDelta& packed);

/// Computes out, [N, Hv·dv], with the bits of delta_net if projections are fp32. Writes the states to `kept`,
/// [num_kept_states, Hv, dk, dv], unless null. Splits (family, key head) pairs over base::num_threads().
void packed_delta(const PackedDelta& packed, MixedArray out, float* kept);

struct DeltaGradients {
  float *d_projections = nullptr, *d_gates_in = nullptr;  ///< overwritten; fp32, as projections and gates_in
  /// accumulated; null: not computed
  float *d_taps_CT = nullptr, *d_a_log_H = nullptr, *d_dt_bias_H = nullptr, *d_gain_V = nullptr;
};

/// Computes gradients from d_out, [N, Hv·dv]. Recomputes a chunk from its kept state in the parallel form of Yang et
/// al. (§3.3): matmuls within the chunk and a triangular solve. Results do not depend on the number of threads.
void packed_delta_backward(const PackedDelta& packed, const float* kept, MixedArray d_out,
                           const DeltaGradients& gradients);

}  // namespace qrl::ops
