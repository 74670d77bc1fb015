// Contract of the matmuls of training: fp32 or bf16 operands as they lie, packed on the way. Knows nothing of
// autograd. Not SPMD as ops/linear.h: a matmul splits itself over base::num_threads() and returns when it is done.
#pragma once

#include <cstdint>

#include "ops/varlen_attention.h"

namespace qrl::ops {

/// An operand: element (r, c) is element r · stride + c of `values`.
struct Operand {
  MixedArray values;
  std::int64_t stride = 0;
  bool transposed = false;  ///< what lies in memory is the transposed matrix
};

/// out (+)= left · right (+ more_left · more_right): [rows, columns] from [rows, depth] and [depth, columns].
struct Matmul {
  MatmulType type = MatmulType::bf16;
  std::int64_t rows = 0, columns = 0, depth = 0;
  Operand left;   ///< of the type of the matmul unless transposed
  Operand right;  ///< fp32 ones are rounded to the nearest bf16 where the matmul is of bf16
  MixedArray out;
  std::int64_t out_stride = 0;
  bool accumulate = false;        ///< out += instead of out =
  Operand more_left, more_right;  ///< as left and right
  std::int64_t more_depth = 0;    ///< 0: without them
};

/// Multiplies and adds in fp32, in the order of ops::linear: fp32 inputs one by one, bf16 ones two at a time, on
/// amx 32. more_depth continues these sums with a step of its own: the bits are those of one product with zeros between
/// the two depths, up to a whole step. out's own value is added last, and a bf16 out is rounded once. Each element's
/// bits depend on its row and its column alone, not on the number of threads.
void matmul(const Matmul& task);

}  // namespace qrl::ops
