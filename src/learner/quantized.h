// Owns the linear layer on a snapshot's quantized tensors, with straight-through gradients. Knows no model.
#pragma once

#include <functional>

#include "config/recipe.h"
#include "learner/policy_weights.h"
#include "model/snapshot.h"
#include "ops/linear.h"

namespace qrl::learner {

/// Returns a snapshot's embedding, in place.
Tensor snapshot_embedding(const model::Snapshot& snapshot);

/// Dequantizes a packed layer's weights, [out, in], rounded to `type` (bf16 or fp32) once.
Tensor dequantized_weight(const ops::PackedLinear& packed, torch::ScalarType type);

/// Holds how a linear layer's forward pass runs on quantized values.
struct Quantized {
  const ops::PackedLinear* packed = nullptr;     ///< the sampler's own tensor
  bool multiplies_quantized = false;             ///< low_bit: ops::linear on the quantized values; else fake_quant
  torch::ScalarType compute = torch::kBFloat16;  ///< of the matmuls of fake_quant and of every backward pass
  /// The backward pass multiplies quantized values in layers of the format that this names (int8; fp8_e4m3 names
  /// fp8_block128). Other layers multiply in `compute`.
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;
};

/// Computes y = X̂ · Ŵᵀ (+ the packed bias), fp32 [N, out], from x fp32 [N, in]. X̂ is x quantized as the sampler
/// quantizes it, Ŵ the packed weights. low_bit: ops::linear, its accumulation and bits; fake_quant: X̂ and Ŵ
/// dequantized and rounded to `compute`, their matmul by LibTorch. The backward pass of both uses the forward's
/// operands, dequantized and rounded to `compute` (QaRL; straight-through): dX = dY·Ŵ, and dYᵀ·X̂ added to the gradient
/// of the fp32 masters. X̂ is kept as quantized values, Ŵ dequantized when needed. The op that reads y computes the
/// bias's gradient: qkv_transform, add_rms_norm. `quantized.packed` must not change before the backward pass.
///
/// With a rotation H, all of this applies to x·H and W·H (quant/rotation.h), also in the backward passes below. dX is
/// rotated back in fp32 before it is returned. dYᵀ·X̂ is added to the gradient as it is, rotated (rotate_gradient).
///
/// backward int8: dY is quantized per token (with Ŵ's scales on it) for dX, and per output channel (with X̂'s scales)
/// for dYᵀ·X̂. Quantization is symmetric, nearest even, with scale amax/127; sums are exact in int32 (our choice: no
/// paper's).
///
/// backward fp8_e4m3 (FP8-RL end to end): blocks are those of DeepSeek-V3, §3.3, but scales are not limited to powers
/// of two. For dX, dY is quantized in e4m3, with one scale (amax/448, fp32) per token and 128 outputs of a tensor. Ŵ's
/// own quantized values and block scales are read transposed. For dYᵀ·X̂, both operands are quantized with one scale
/// per column and 128 tokens of the micro-batch. dY is quantized from fp32. X̂ is quantized from its dequantized
/// values, which the forward pass multiplied and which alone are kept. Products of quantized values are exact, sums of
/// 128 products are fp32. These are scaled in fp32 and added to fp32 sums (ops::linear's), which are added to the
/// gradient last. A segment of zeros has scale 0. A segment with a NaN or infinity has scale NaN, and each sum that it
/// is added to becomes NaN.
Tensor quantized_linear(const Tensor& x, const Weight& master, const Quantized& quantized, bool is_read = true);

/// Returns whether quantized_linear adds rotated rows to the gradient of the layer's weight.
bool gathers_rotated(const Linear& linear);
/// Rotates that gradient, fp32 [out, in], or rotates it back, on all threads; nothing where it is not gathered rotated.
void rotate_gradient(const Linear& linear);

/// Runs quantized_linear's forward pass alone, without the product if it is not read. Leaves X̂ in `input`, of the
/// packed format for all rows. Has no gradient.
Tensor quantized_output(const Tensor& x, const Quantized& quantized, ops::Activations& input, bool is_read = true);

/// Adds a thread's term to some rows of dX. d_x points to the first of them.
using AddToRows = std::function<void(base::Team& alone, base::Range rows, float* d_x)>;
/// Computes dX = dY·Ŵ of quantized_linear's backward pass, rotated back, fp32 [N, in]; d_y [N, out] of any dtype.
/// `make_add` makes each thread's function that adds to at most kBlockRows rows (row_blocks.h) at a time; empty: none.
Tensor quantized_input_gradient(const Tensor& d_y, const Quantized& quantized,
                                const std::function<AddToRows()>& make_add = {});

/// Computes second(silu(gate) · up) of x, fp32 [N, D] both: first(x) is [N, 2F], gate first. Uses low_bit's matmuls and
/// bits, with the layers' adapters. Has no gradient. Intermediate values exist only for a block of rows per thread.
Tensor quantized_mlp(const Tensor& x, const Linear& first, const Linear& second);

}  // namespace qrl::learner
