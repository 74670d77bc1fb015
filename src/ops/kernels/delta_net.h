#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/delta_net.h"

namespace qrl::ops {

/// Lays out one head's state in floats: S, then the last token's k, δ and e^g. S is [dv / 16, dk, 16], so that the
/// columns that a kernel holds at a time are adjacent lines: rows of dv numbers would share a few sets of the cache.
struct DeltaHeadState {
  std::int64_t update_k, update_delta, update_decay, size;
  constexpr explicit DeltaHeadState(const DeltaShape& shape)
      : update_k(shape.key_dim * shape.value_dim),
        update_delta(update_k + shape.key_dim),
        update_decay(update_delta + shape.value_dim),
        size(update_decay + kDeltaDimMultiple) {}
};

/// Lays out the channels of a key head and its value heads: q, k, then v of each head.
struct DeltaGroup {
  std::int64_t first_head, num_heads;  ///< value heads
  std::int64_t key_dim, value_dim;
  std::int64_t q_column, k_column, v_column, z_column;  ///< in a row of projections
  DeltaGroup(const DeltaShape& shape, std::int64_t key_head)
      : first_head(key_head * (shape.num_value_heads / shape.num_key_heads)),
        num_heads(shape.num_value_heads / shape.num_key_heads),
        key_dim(shape.key_dim),
        value_dim(shape.value_dim),
        q_column(key_head * key_dim),
        k_column((shape.num_key_heads + key_head) * key_dim),
        v_column(2 * shape.num_key_heads * key_dim + first_head * value_dim),
        z_column(shape.channels() + first_head * value_dim) {}
  std::int64_t channels() const { return 2 * key_dim + num_heads * value_dim; }
};

/// Describes at most kDeltaChunk adjacent tokens of a sequence, in one key head.
struct DeltaSegment {
  const DeltaShape* shape = nullptr;
  const DeltaWeights* weights = nullptr;
  std::int64_t key_head = 0, num_rows = 0;
  /// [conv_width − 1 + num_rows]: rows of projections, those before the segment first; null before the sequence.
  const void* const* rows = nullptr;
  bool is_bf16 = false;             ///< whether rows are bf16 or fp32
  const float* gates_in = nullptr;  ///< of the first row
  const float* taps = nullptr;      ///< from DeltaKernels::turn_taps
};

struct DeltaStep {
  float* states = nullptr;     ///< of the group's heads, DeltaHeadState::size apart; updated
  bool begins = false;         ///< if set, S is 0 before the segment, whatever `states` holds
  bool applies_update = true;  ///< if set, S still lacks the update in `states`
  MixedArray out;              ///< of the segment's first row
  float* kept = nullptr;       ///< receives S of the group's heads before the segment; null: not kept
};

struct DeltaStepGradients {
  const float* kept = nullptr;  ///< S of the group's heads before the segment
  MixedArray d_out;             ///< of the segment's first row
  float* d_states = nullptr;    ///< [heads, dk, dv]: gradients of S after the segment; become those before it
  /// [conv_width − 1 + num_rows]: as DeltaSegment::rows; added to, except the segment's gate z, which is overwritten
  float* const* d_rows = nullptr;
  float* d_gates_in = nullptr;  ///< of the first row; overwritten
  /// added to: taps [conv_width, channels of the group], gain [heads, dv], a_log [heads], dt_bias [heads]
  float* d_parameters = nullptr;
};

struct DeltaKernels {
  /// Writes the group's taps as [conv_width, channels of the group].
  void (*turn_taps)(const DeltaShape& shape, const DeltaWeights& weights, std::int64_t key_head, float* taps);
  /// scratch: forward_scratch floats.
  void (*forward)(const DeltaSegment& segment, const DeltaStep& step, float* scratch);
  /// scratch: backward_scratch floats.
  void (*backward)(const DeltaSegment& segment, const DeltaStepGradients& step, float* scratch);
  std::int64_t (*forward_scratch)(const DeltaShape& shape);
  std::int64_t (*backward_scratch)(const DeltaShape& shape);
};

}  // namespace qrl::ops
