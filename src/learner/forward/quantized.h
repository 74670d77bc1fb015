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

/// Dequantizes a packed layer's weights, [out, in], and rounds once to `type`, bf16 or fp32.
Tensor dequantized_weight(const ops::PackedLinear& packed, torch::ScalarType type);

/// Dequantizes rows, [N, in], and rounds once to `type`. Rotated rows stay rotated.
Tensor dequantized_input(const ops::Activations& quantized, torch::ScalarType type);

struct Quantized {
  const ops::PackedLinear* packed = nullptr;     ///< the sampler's tensor
  bool multiplies_quantized = false;             ///< low_bit: ops::linear on quantized values; otherwise fake_quant
  torch::ScalarType compute = torch::kBFloat16;  ///< dtype of fake_quant's matmuls and of every backward pass
  /// Format whose layers multiply quantized values in the backward pass (int8; fp8_e4m3 for fp8_block128). Other layers
  /// multiply in `compute`.
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;
};

/// Computes y = X̂ · Ŵᵀ (+ the packed bias), fp32 [N, out], from x fp32 [N, in]. X̂ is x quantized like the sampler's,
/// Ŵ the packed weights. low_bit multiplies by ops::linear. fake_quant dequantizes X̂ and Ŵ, rounds them to `compute`
/// and multiplies by LibTorch. Both backward passes use those rounded operands (QaRL; straight-through): dX = dY·Ŵ, and
/// dYᵀ·X̂ added to the fp32 masters' gradient. X̂ is kept quantized, Ŵ dequantized when needed. The consumer of y
/// computes the bias's gradient. `quantized.packed` must not change before the backward pass.
///
/// With a rotation H, multiplies x·H and W·H (quant/rotation.h). Rotates dX back in fp32. dYᵀ·X̂ is added to a gradient
/// that is rotated (rotate_gradient).
///
/// With backward int8, dY is quantized per token (times Ŵ's scales) for dX, and per output channel (times X̂'s scales)
/// for dYᵀ·X̂. Sums are exact in int32.
///
/// With backward fp8_e4m3, blocks are those of docs/reference/formats.md. Products are exact, sums of 128 products
/// fp32, scaled and added in fp32. A segment of zeros has scale 0; one with a NaN or infinity has scale NaN.
Tensor quantized_linear(const Tensor& x, const Weight& master, const Quantized& quantized, bool needs_output = true);

/// Adds quantized_linear's dYᵀ·X̂ to the gradient; `input` is the X̂ that quantized_output leaves.
void add_quantized_weight_gradient(const Tensor& d_y, const ops::Activations& input, const Quantized& quantized,
                                   const Tensor& gradient);

/// Returns whether quantized_linear adds to a rotated gradient of this weight.
bool gathers_rotated(const Linear& linear);
/// Rotates the weight's gradient, fp32 [out, in], or rotates it back, on all threads; no-op without a rotation.
void rotate_gradient(const Linear& linear);

/// Runs quantized_linear's forward pass without autograd; unless needs_output, without the product. Leaves X̂ of all
/// rows in `input`.
Tensor quantized_output(const Tensor& x, const Quantized& quantized, ops::Activations& input, bool needs_output = true);

/// Adds one thread's term to rows of dX; d_x points to the first row.
using AddToRows = std::function<void(base::Team& alone, base::Range rows, float* d_x)>;
/// Computes quantized_linear's dX = dY·Ŵ, rotated back, fp32 [N, in]; d_y [N, out] of any dtype. `make_add` makes a
/// function per thread, called for at most kBlockRows rows (entering_rows.h) at a time; empty: no term.
Tensor quantized_input_gradient(const Tensor& d_y, const Quantized& quantized,
                                const std::function<AddToRows()>& make_add = {});

/// Computes second(silu(gate) · up) of x, both fp32 [N, D]; first(x) is [N, 2F], gate first. Matmuls, bits and adapters
/// are low_bit's, without autograd. Intermediate values exist for one block of rows per thread.
Tensor quantized_mlp(const Tensor& x, const Linear& first, const Linear& second);

}  // namespace qrl::learner
