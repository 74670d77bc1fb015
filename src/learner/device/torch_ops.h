#pragma once

#include <vector>

#include "learner/device/device_kernels.h"
#include "learner/forward/forward_ops.h"
#include "learner/forward/logprob.h"
#include "model/config.h"
#include "model/device_weights.h"

namespace qrl::learner {

/// PackedRows on the weights' device.
struct DeviceRows {
  TokenLists tokens;
  Tensor angles_NE;           ///< fp32 cosines of a row's position, then sines
  RowLists keys;              ///< rows of each sequence's keys, concatenated; undefined: rows 0 … N−1
  Tensor starts, key_starts;  ///< int32 [S+1], where each sequence's queries and keys start
  std::vector<std::int64_t> lengths, key_lengths;  ///< [S]; the queries are the rows of a sequence's last keys
};
DeviceRows place_rows(const PackedRows& rows, std::int64_t head_dim, const torch::Device& device);

struct TorchDevice {
  /// Kernels of norms, rotation and SwiGLU, on LibTorch's current stream. Null: LibTorch's operations.
  const cuda::TrainingKernels* kernels = nullptr;
  model::DeviceWeights* weights = nullptr;  ///< with low_bit: the snapshot's weights on the device
};

/// Implements Ops on a device, with LibTorch and the device's kernels (device_kernels.h), if any. Residual stream,
/// norms, rotation and SwiGLU are fp32. Matmul operands and intermediate values are in the compute dtype, and k and v
/// are rounded like the decoder's pages. Attention is FlashAttention (fp32 softmax, weights rounded to bf16) if
/// available, else one sequence at a time with fp32 softmax weights. Weights' gradients are summed in fp32. The
/// backward pass keeps inputs of norms, transforms and matmuls. With fake_quant, matmuls read rounded_activations in
/// fp32 and the snapshot's weights (Parameters::read_quantized). With low_bit, the matmul is the decoder's
/// (device_quantized.h). Both have straight-through gradients.
class TorchOps final : public Ops {
 public:
  /// The objects that `device` points to must outlive the backward pass.
  TorchOps(DeviceRows rows, const model::ModelConfig& config, const ForwardNumerics& numerics,
           const TorchDevice& device);

  Tensor embed(const Weight& table_VD) const override;
  Normed add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, torch::ScalarType out) const override;
  Tensor linear(const Linear& linear, const Recomputable& x, bool needs_output) const override;
  Tensor attention(const Tensor& qkv_NC, const QkvWeights& weights) const override;
  Recomputable swiglu(const Tensor& halves_N2F) const override;

 private:
  DeviceRows rows_;
  Heads heads_;
  TorchDevice device_;
};

/// Computes target_log_probs on a device, chunk by chunk; the backward pass recomputes the logits. Logits are exact
/// matmuls of hidden states and lm_head (both in hidden_ND's dtype) with fp32 sums. Log-softmax and entropy are fp32.
/// The scores are copied to CPU memory. With `kernels`, reads a chunk's logits once for the scores and once for their
/// gradient; null: LibTorch's operations. Given `known` scores, returns them and computes only the backward pass.
/// `targets` and `kernels` must outlive the backward pass.
TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const cuda::TrainingKernels* kernels, const TargetScores* known = nullptr);

}  // namespace qrl::learner
