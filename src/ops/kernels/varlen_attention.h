// What src/ops/varlen_attention.cpp calls on each ISA path: one (sequence, key head) at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/varlen_attention.h"

namespace qrl::ops {

struct VarlenAttentionKernels {
  void (*forward)(const VarlenAttention& attention, std::int64_t sequence, std::int64_t kv_head, MixedArray out,
                  float* lse, float* scratch);
  void (*backward)(const VarlenAttention& attention, std::int64_t sequence, std::int64_t kv_head, const float* lse,
                   MixedArray d_out, float* d_qkv, float* scratch);
  std::size_t (*num_scratch_floats)(std::int64_t length, std::int64_t head_dim);
};

namespace avx512 {
extern const VarlenAttentionKernels kVarlenAttention;
}
namespace avx2 {
extern const VarlenAttentionKernels kVarlenAttention;
}
namespace portable {
extern const VarlenAttentionKernels kVarlenAttention;
}

}  // namespace qrl::ops
