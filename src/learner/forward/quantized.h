// Owns linear layers on a snapshot's quantized tensors, with straight-through gradients.
#pragma once

#include <functional>

#include "config/words.h"
#include "learner/forward/policy_weights.h"
#include "model/snapshot.h"
#include "ops/linear.h"

namespace qrl::learner {

/// Returns a view of a snapshot's embedding.
Tensor snapshot_embedding(const model::Snapshot& snapshot);

/// Dequantizes a packed layer's weights, [out, in], rounded to `type` (bf16 or fp32) once.
Tensor dequantized_weight(const ops::PackedLinear& packed, torch::ScalarType type);

struct Quantized {
  const ops::PackedLinear* packed = nullptr;     ///< the sampler's own tensor
  bool multiplies_quantized = false;             ///< low_bit: ops::linear on the quantized values; else fake_quant
  torch::ScalarType compute = torch::kBFloat16;  ///< of the matmuls of fake_quant and of every backward pass
  /// Layers of the named format multiply quantized values backward (int8; fp8_e4m3 names fp8_block128). Other layers
  /// multiply in `compute`.
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;
};

/// Computes y = X̂ · Ŵᵀ (+ the packed bias), fp32 [N, out], from x fp32 [N, in]. X̂ is x quantized like the sampler's,
/// Ŵ the packed weights. low_bit multiplies by ops::linear, with its accumulation and bits. fake_quant dequantizes X̂
/// and Ŵ, rounds them to `compute` and multiplies by LibTorch. Both backward passes use those operands dequantized and
/// rounded to `compute` (QaRL; straight-through): dX = dY·Ŵ, and dYᵀ·X̂ added to the fp32 masters' gradient. X̂ is kept
/// quantized, Ŵ dequantized when needed. The op that reads y computes the bias's gradient. `quantized.packed` must not
/// change before the backward pass.
///
/// With a rotation H, all of this, also below, applies to x·H and W·H (quant/rotation.h). dX is rotated back in fp32.
/// dYᵀ·X̂ is added to the gradient rotated (rotate_gradient).
///
/// backward int8: dY is quantized per token (with Ŵ's scales on it) for dX, and per output channel (with X̂'s scales)
/// for dYᵀ·X̂. Quantization is symmetric, nearest even, with scale amax/127; sums are exact in int32 (our choice).
///
/// backward fp8_e4m3 (FP8-RL end to end): blocks are those of DeepSeek-V3, §3.3, with scales not limited to powers of
/// two. For dX, dY has one scale (amax/448, fp32) per token and 128 outputs of a tensor. Ŵ's quantized values and block
/// scales are read transposed. For dYᵀ·X̂, both operands have one scale per column and 128 tokens of the micro-batch.
/// dY is quantized from fp32. X̂ is quantized from its dequantized values, the only ones kept. Products are exact, sums
/// of 128 products fp32. These are scaled and added to fp32 sums (ops::linear's), which are added to the gradient last.
/// A segment of zeros has scale 0. A segment with a NaN or infinity has scale NaN, which reaches each of its sums.
Tensor quantized_linear(const Tensor& x, const Weight& master, const Quantized& quantized, bool is_read = true);

/// Returns whether quantized_linear adds rotated rows to the weight's gradient.
bool gathers_rotated(const Linear& linear);
/// Rotates that gradient, fp32 [out, in], or rotates it back, on all threads; else does nothing.
void rotate_gradient(const Linear& linear);

/// Runs quantized_linear's forward pass alone, without the product if not read. Leaves X̂ of all rows in `input`. Has
/// no gradient.
Tensor quantized_output(const Tensor& x, const Quantized& quantized, ops::Activations& input, bool is_read = true);

/// Adds a thread's term to rows of dX; d_x points to the first.
using AddToRows = std::function<void(base::Team& alone, base::Range rows, float* d_x)>;
/// Computes quantized_linear's dX = dY·Ŵ, rotated back, fp32 [N, in]; d_y [N, out] of any dtype. `make_add` makes each
/// thread's function, for at most kBlockRows rows (row_blocks.h) at a time; empty: none.
Tensor quantized_input_gradient(const Tensor& d_y, const Quantized& quantized,
                                const std::function<AddToRows()>& make_add = {});

/// Computes second(silu(gate) · up) of x, fp32 [N, D] both: first(x) is [N, 2F], gate first. Has low_bit's matmuls,
/// bits and adapters. Has no gradient. Intermediate values exist for a block of rows per thread.
Tensor quantized_mlp(const Tensor& x, const Linear& first, const Linear& second);

}  // namespace qrl::learner
