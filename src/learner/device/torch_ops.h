#pragma once

#include <vector>

#include "learner/device/device_kernels.h"
#include "learner/forward/forward_ops.h"
#include "learner/forward/logprob.h"
#include "model/config.h"
#include "model/device_weights.h"

namespace qrl::learner {

/// Holds PackedRows on the weights' device.
struct DeviceRows {
  TokenLists tokens;
  Tensor angles_NE;           ///< fp32; cosines of a row's RoPE angles, then sines
  RowLists keys;              ///< source rows of all keys, by sequence; undefined: rows 0 … N−1
  Tensor starts, key_starts;  ///< int32 [S+1], offsets of each sequence's first query and first key
  std::vector<std::int64_t> lengths, key_lengths;  ///< [S] counts; a sequence's queries are its last keys' rows
};
DeviceRows place_rows(const PackedRows& rows, std::int64_t head_dim, const torch::Device& device);

struct TorchDevice {
  /// Kernels for operations between matmuls, run on LibTorch's current stream. Null: LibTorch's operations.
  const cuda::TrainingKernels* kernels = nullptr;
  model::DeviceWeights* weights = nullptr;  ///< with low_bit: the snapshot's weights on the device
};

/// Implements Ops on a device with LibTorch, and with the kernels of device_kernels.h if given. Rotation and SwiGLU are
/// fp32; other dtypes are ForwardNumerics'. With `bitwise`, k and v are rounded like the decoder's int8 pages.
/// Attention is FlashAttention (fp32 softmax, weights rounded to bf16) if available. Otherwise it computes one sequence
/// at a time, with fp32 softmax weights. The backward pass keeps inputs of norms, transforms and matmuls.
///
/// With fake_quant, operands are rounded_activations of fp32 rows and the snapshot's dequantized weights
/// (Parameters::read_quantized). With low_bit, the matmul is device_quantized_linear. Both have straight-through
/// gradients.
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

/// Computes target_log_probs on a device, chunk by chunk; the backward pass recomputes the logits. Logits are
/// exact_matmul of hidden states and lm_head, both in hidden_ND's dtype. Log-softmax and entropy are fp32. With
/// `kernels`, a chunk's logits are read once for the scores and once for their gradient; null: LibTorch's operations.
/// Unless `known` is null, returns these scores and computes only the backward pass. `targets` and `kernels` must
/// outlive the backward pass.
TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const cuda::TrainingKernels* kernels, const TargetScores* known = nullptr);

}  // namespace qrl::learner
