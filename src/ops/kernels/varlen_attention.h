#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/varlen_attention.h"

namespace qrl::ops {

/// A prefix sequence and the sequences that continue it.
struct Family {
  std::int64_t first_sequence = 0, end_sequence = 0;
};

struct VarlenAttentionKernels {
  void (*forward)(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, MixedArray out,
                  float* lse, float* scratch);
  void (*backward)(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, const float* lse,
                   MixedArray d_out, float* d_qkv, float* scratch);
  /// Returns the scratch floats of a family whose longest sequence attends to `length` rows, prefix included.
  std::size_t (*num_scratch_floats)(std::int64_t length, std::int64_t head_dim);
};

}  // namespace qrl::ops
