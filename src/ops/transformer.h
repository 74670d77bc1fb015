// Contracts of the small ops around the matrix products in a transformer's forward pass, on packed rows.
// SPMD as ops/linear.h says: all members call, rows are split, no barrier inside, fixed order per row.
#pragma once

#include <cstdint>

#include "base/threads.h"
#include "base/view.h"
#include "ops/linear.h"

namespace qrl::ops {

/// x[row, :] = table[tokens[row], :] as fp32. table: [V, D] bf16 or fp32.
void embed(base::Team& team, const base::View& table_VD, const std::int32_t* tokens, base::Range rows, float* x_ND);

/// out = encode(x · gain / sqrt(mean(x²) + eps)); mean in fp32 in a fixed order. x: [*, width] fp32, width = out.width.
void rms_norm(base::Team& team, const float* x_ND, const float* gain_D, float eps, base::Range rows, Activations& out);

/// out = encode(silu(gate) · up); gate_up: [*, 2F] fp32, gate first; F = out.width.
void swiglu(base::Team& team, const float* gate_up_N2F, base::Range rows, Activations& out);

/// Cosines and sines of position · theta^(−2i/E), i in [0, E/2), computed in fp64, stored fp32:
/// table [max_positions, E]: E/2 cosines then E/2 sines.
base::Buffer make_rope_table(std::int64_t max_positions, std::int64_t head_dim, double theta);

/// Shape of the attention's heads.
struct HeadShape {
  std::int64_t num_heads = 0;     ///< H
  std::int64_t num_kv_heads = 0;  ///< K
  std::int64_t head_dim = 0;      ///< E
};

/// One layer's key/value pages. Keys and values: [num_pages, page_size, K, E] in `dtype` (f32 or bf16).
struct KvPages {
  base::View keys, values;
  std::int64_t page_size = 0;  ///< tokens per page
};

/// For each row: which sequence's page table it belongs to, its position, so it sees positions 0 … position.
struct AttentionRows {
  const std::int32_t* positions = nullptr;           ///< [*]
  const std::int32_t* const* page_tables = nullptr;  ///< [*]: page ids of the row's sequence, in order
};

/// In place on qkv rows ([*, (H+2K)·E] fp32: q heads, k heads, v heads): optional RMSNorm over E of each q and k head
/// (gains of E, null: none), rotary embedding (rotate-half) at the row's position; then stores k and v of the row in
/// its page slot (rounded to the pages' dtype).
void rope_and_store(base::Team& team, const HeadShape& shape, const float* q_norm_E, const float* k_norm_E, float eps,
                    const base::View& rope_table, const AttentionRows& where, base::Range rows, const KvPages& pages,
                    float* qkv);

/// Causal attention of each row's q heads over its sequence's pages; out = encode(attention) with out.width = H·E.
/// Scores and sums in fp32, in order of the position, softmax scale 1/sqrt(E); independent of page size and chunking.
/// q: the first H·E of each row of `qkv` (row stride (H+2K)·E). Scratch is per thread and kept.
/// Splits rows × kv heads over the team, except that encoding needs whole rows: `context` ([*, H·E] fp32) is written
/// here, and the caller encodes it after a barrier.
void paged_attention(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
                     const KvPages& pages, const float* qkv, float* context);

}  // namespace qrl::ops
