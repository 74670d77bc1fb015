#pragma once

#include <vector>

#include "learner/device/device_kernels.h"
#include "learner/forward/forward_ops.h"
#include "learner/forward/logprob.h"
#include "model/config.h"
#include "model/device_weights.h"

namespace qrl::learner {

struct DeviceRows {
  TokenLists tokens;
  Tensor angles_NR;  ///< fp32; a row holds the cosines of its RoPE angles, then the sines; R elements of a head turn
  Tensor sliding_angles_NR;  ///< those of RopeKind::sliding; undefined: none
  RowLists keys;             ///< gather of each sequence's keys, prefix first; undefined: rows 0 … N−1 are the keys
  Tensor starts, key_starts;  ///< cumulative sequence lengths of queries and of keys, int32 [S+1] each
  /// Numbers of queries and keys, [S] each. A sequence's keys are those of its prefix, then one per query.
  std::vector<std::int64_t> lengths, key_lengths;
};
DeviceRows place_rows(const PackedRows& rows, std::int64_t rotary_dim, const torch::Device& device);

struct TorchDevice {
  /// Kernels for operations between matmuls, run on LibTorch's current stream. Null: LibTorch runs these operations.
  const cuda::TrainingKernels* kernels = nullptr;
  model::DeviceWeights* weights = nullptr;  ///< the snapshot's weights on the device, for low_bit
};

/// Implements Ops on a device with LibTorch, and with the kernels of device_kernels.h if given. RoPE and SwiGLU are
/// fp32; ForwardNumerics sets the other dtypes. With `bitwise` and int8 pages, k and v are rounded as in those pages.
/// Attention is FlashAttention if available, with fp32 softmax and weights rounded to bf16. Otherwise attention is
/// computed one sequence at a time, with fp32 softmax weights.
///
/// With fake_quant, a matmul multiplies rounded_activations of fp32 x by the snapshot's dequantized weight
/// (Parameters::read_quantized). With low_bit, a matmul is device_quantized_linear. In both modes, gradients pass
/// straight through the rounding.
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
  float embedding_multiplier_, residual_multiplier_;
  base::Gate gate_;
  TorchDevice device_;
};

/// Computes target_log_probs on a device, chunk by chunk; the backward pass recomputes the logits. Logits are
/// exact_matmul of hidden states and lm_head, both in hidden_ND's dtype. Log-softmax and entropy are fp32. With
/// `kernels`, a chunk's logits are read once for the scores and once for their gradient. If `known` is set, returns its
/// scores, and computes only the backward pass. `targets` and `kernels` must outlive the backward pass.
TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const cuda::TrainingKernels* kernels, const TargetScores* known = nullptr);

}  // namespace qrl::learner
