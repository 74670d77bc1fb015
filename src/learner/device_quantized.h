// Owns what the learner computes with the decoder's own weights where both are on one device: its linear layers, with
// straight-through gradients, and its tables. Knows no model.
#pragma once

#include <string>

#include "config/recipe.h"
#include "learner/autograd.h"
#include "learner/torch_linear.h"
#include "model/device_weights.h"
#include "ops/linear.h"

namespace qrl::learner {

/// Returns the present stream of LibTorch's work on a device, for model::DeviceWeights. Null on the CPU, where work is
/// done when a call returns.
void* stream_on(const torch::Device& device);

/// Holds a linear layer of the snapshot whose weights are in this device's memory.
struct DeviceLayer {
  model::DeviceWeights* weights = nullptr;
  std::string matrix;                                                       ///< its name there, "layers.0.qkv"
  const ops::PackedLinear* form = nullptr;                                  ///< the snapshot's: shape and format alone
  torch::ScalarType compute = torch::kBFloat16;                             ///< of the backward pass's matmuls
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;  ///< or fp8_e4m3, of fp8_block128 alone
};

/// Computes y = X̂ · Ŵᵀ, [N, out], from x fp32 [N, in] as low_bit does (quantized.h), with the decoder's own matmul on
/// its quantized values. The bias is not added. y is bf16 like the decoder's results, or fp32 if its engine keeps fp32.
/// With an fp32 `compute`, y is fp32 and holds the bf16 result exactly.
/// The backward pass is quantized_linear's. X̂ is kept as quantized values, if W is trained. X̂ and Ŵ are dequantized
/// and rounded to `compute` when needed. dX = dY·Ŵ is fp32, and dYᵀ·X̂ is added to master.gradient without rounding.
/// With backward fp8_e4m3, dY and X̂ are quantized like quantized_linear's, then dequantized and rounded to `compute`,
/// some thousand tokens at a time. That rounding is 2⁻⁹ with bf16, against e4m3's 2⁻⁴. The numbers come from
/// `compute`'s matmuls with fp32 sums, which include the scales.
/// The weights must not change before the backward pass. If y is not read, it has no values.
Tensor device_quantized_linear(const Tensor& x, const Weight& master, const DeviceLayer& layer, bool is_read = true,
                               const LayerAddition& beside = {});

/// Returns the decoder's embedding or lm_head in place, bf16 [num_rows, width].
Tensor device_table(model::DeviceWeights& weights, const std::string& tensor, std::int64_t num_rows, std::int64_t width,
                    const torch::Device& device);

}  // namespace qrl::learner
