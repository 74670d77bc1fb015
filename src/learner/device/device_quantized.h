#pragma once

#include <string>

#include "learner/device/torch_linear.h"
#include "learner/options.h"
#include "learner/tensors/autograd.h"
#include "model/device_weights.h"
#include "ops/linear.h"

namespace qrl::learner {

/// Returns LibTorch's current stream on a device; null on the CPU.
void* stream_on(const torch::Device& device);

struct DeviceLayer {
  model::DeviceWeights* weights = nullptr;
  std::string matrix;  ///< matrix name in DeviceWeights
  const ops::PackedLinear* form = nullptr;
  torch::ScalarType compute = torch::kBFloat16;             ///< dtype of the backward pass's operands
  LearnerBackward backward = LearnerBackward::model_dtype;  ///< fp8_e4m3: only in fp8_block128 layers
};

/// Computes y = X̂ · Ŵᵀ, [N, out], like quantized_linear with low_bit, but uses the decoder's matmul and adds no bias.
/// x is fp32 [N, in]. y is fp32 if the decoder's matmul returns fp32 or `compute` is fp32, else bf16. Unless
/// needs_output, y is uninitialized. The weights must not change before the backward pass.
///
/// The backward pass is quantized_linear's, with fp32 sums. If W is trained, X̂ is kept as quantized values. X̂ and Ŵ
/// are dequantized, rotated back in fp32 (quant/rotation.h) and rounded to `compute` when needed. dX is fp32. dYᵀ·X̂ is
/// added to master.gradient without rounding. With backward fp8_e4m3, dY and X̂ are quantized, dequantized and rounded
/// to `compute`, in batches of kFp8GradientTokens tokens.
Tensor device_quantized_linear(const Tensor& x, const Weight& master, const DeviceLayer& layer,
                               bool needs_output = true, const LayerAddition& beside = {});

/// Returns a view of the decoder's embedding or lm_head, bf16 [num_rows, width].
Tensor device_table(model::DeviceWeights& weights, const std::string& tensor, std::int64_t num_rows, std::int64_t width,
                    const torch::Device& device);

}  // namespace qrl::learner
