#pragma once

#include <functional>

#include "learner/forward/policy_weights.h"
#include "learner/options.h"
#include "model/snapshot.h"
#include "ops/linear.h"

namespace qrl::learner {

/// Returns a view of a snapshot's embedding.
Tensor snapshot_embedding(const model::Snapshot& snapshot);

/// Dequantizes a packed layer's weights, [out, in], and rounds once to `type`, bf16 or fp32. Rotated rows stay rotated.
Tensor dequantized_weight(const ops::PackedLinear& packed, torch::ScalarType type);

/// Dequantizes rows, [N, in], and rounds once to `type`. Rotated rows stay rotated.
Tensor dequantized_input(const ops::Activations& quantized, torch::ScalarType type);

struct Quantized {
  const ops::PackedLinear* packed = nullptr;     ///< the snapshot's matrix
  bool multiplies_quantized = false;             ///< whether ops::linear multiplies quantized values (low_bit)
  torch::ScalarType compute = torch::kBFloat16;  ///< dtype of fake_quant's matmuls and of every backward pass
  /// Format of the backward pass's products. int8 applies to int8 layers, fp8_e4m3 to fp8_block128 layers. Other layers
  /// multiply in `compute`.
  LearnerBackward backward = LearnerBackward::model_dtype;
};

/// Computes y = X̂ · Ŵᵀ (+ the packed bias), fp32 [N, out]. X̂ is x, fp32 [N, in], quantized as in sampling. Ŵ are the
/// packed weights. With low_bit, ops::linear multiplies the quantized values. With fake_quant, ops::matmul multiplies
/// the dequantized values, rounded to `compute`. In both modes, the backward pass multiplies dequantized values rounded
/// to `compute` (QaRL; straight-through): dX = dY·Ŵ, and dYᵀ·X̂ is added to master.gradient in fp32. X̂ is kept
/// quantized; Ŵ is dequantized when needed. The consumer of y computes the bias's gradient. `quantized.packed` must not
/// change before the backward pass.
///
/// With a rotation H, multiplies x·H and W·H (quant/rotation.h). dX is rotated back in fp32. dYᵀ·X̂ is added to a
/// rotated gradient; rotate_gradient rotates it back.
///
/// With backward int8, sums are exact in int32. For dX, dY is multiplied by Ŵ's scales and quantized per token. For
/// dYᵀ·X̂, dY is multiplied by X̂'s scales and quantized per output channel.
///
/// With backward fp8_e4m3, operands are quantized in the blocks of docs/reference/formats.md. Products are exact. Every
/// 128 products are summed in fp32; these sums are scaled and added in fp32. A segment of zeros has scale 0; a segment
/// with a NaN or infinity has scale NaN.
Tensor quantized_linear(const Tensor& x, const Weight& master, const Quantized& quantized, bool needs_output = true);

/// Adds quantized_linear's dYᵀ·X̂ to the gradient; `input` is X̂ from quantized_output.
void add_quantized_weight_gradient(const Tensor& d_y, const ops::Activations& input, const Quantized& quantized,
                                   const Tensor& gradient);

/// Rotates rows of a matrix, fp32 [N, in] on the CPU, on all threads.
void rotate_in_place(const quant::Rotation& rotation, const Tensor& rows);
/// Returns whether this weight's gradient is rotated while quantized_linear adds to it.
bool gathers_rotated(const Linear& linear);
/// Rotates the weight's gradient, fp32 [out, in], on all threads; a second call rotates it back. No-op without a
/// rotation.
void rotate_gradient(const Linear& linear);

/// Runs quantized_linear's forward pass without autograd, and writes X̂ of all rows to `input`. If needs_output is
/// false, does not multiply and returns an uninitialized y.
Tensor quantized_output(const Tensor& x, const Quantized& quantized, ops::Activations& input, bool needs_output = true);

/// Adds a term to `rows` of dX, on one thread. d_x points to the first of `rows`.
using AddToRows = std::function<void(base::Team& alone, base::Range rows, float* d_x)>;
/// Computes quantized_linear's dX = dY·Ŵ, rotated back, fp32 [N, in]. d_y [N, out] is fp32, or has any dtype if dX is
/// computed in `compute`. If make_add is set, each thread calls make_add() once, and calls the result for at most
/// kBlockRows rows at a time.
Tensor quantized_input_gradient(const Tensor& d_y, const Quantized& quantized,
                                const std::function<AddToRows()>& make_add = {});

/// Computes y = second(activation(gate) · up) without autograd. first(x), [N, 2F], holds gate, then up. x and y are
/// fp32 [N, D]. Results equal those of separate low_bit layers bitwise, adapters included.
Tensor quantized_mlp(const Tensor& x, const Linear& first, const Linear& second,
                     base::Gate activation = base::Gate::silu);

}  // namespace qrl::learner
