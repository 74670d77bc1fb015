// Contract of training's matmuls: strided fp32 or bf16 operands, packed on the fly. Not SPMD: splits the work over
// base::num_threads() and returns when done.
#pragma once

#include <cstdint>

#include "ops/varlen_attention.h"

namespace qrl::ops {

/// A matrix with element (r, c) at values[r · stride + c].
struct Operand {
  MixedArray values;
  std::int64_t stride = 0;
  bool transposed = false;  ///< if set, memory holds the transposed matrix
};

/// Computes out (+)= left · right (+ more_left · more_right), [rows, columns] from [rows, depth] and [depth, columns].
struct Matmul {
  MatmulType type = MatmulType::bf16;
  std::int64_t rows = 0, columns = 0, depth = 0;
  Operand left;   ///< operand in dtype `type`, or in any dtype if transposed
  Operand right;  ///< fp32 is rounded to bf16 (nearest) when `type` is bf16
  MixedArray out;
  std::int64_t out_stride = 0;
  bool accumulate = false;
  Operand more_left, more_right;  ///< second pair of operands, with depth more_depth
  std::int64_t more_depth = 0;    ///< 0: no second pair
};

/// Accumulates in fp32 in the order of ops::linear, in steps of one fp32 input or two bf16 inputs (amx: 32). The second
/// pair continues these sums at a new step. `accumulate` adds the old value of `out` last. A bf16 `out` is rounded
/// once. An element's result depends only on its row of `left` and its column of `right`.
void matmul(const Matmul& task);

}  // namespace qrl::ops
