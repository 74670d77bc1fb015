// Owns the interface of a policy's forward operations, implemented by fused_ops.h and torch_ops.h. policy.cpp defines
// their order.
#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "config/words.h"
#include "learner/forward/policy_weights.h"
#include "model/config.h"
#include "quant/kv_format.h"

namespace qrl::learner {

/// Holds the dtypes and formats of the passes (Numerics) for the operations.
struct ForwardNumerics {
  torch::ScalarType compute = torch::kBFloat16;  ///< dtype of matmuls' operands: bf16 or f32
  torch::ScalarType lm_head = torch::kBFloat16;  ///< dtype of lm_head and of its hidden states
  bool own_lm_head = false;  ///< whether lm_head is the learner's, not the snapshot's, for any `forward`
  torch::ScalarType between = torch::kBFloat16;    ///< dtype of values between the linear layers
  torch::ScalarType attention = torch::kBFloat16;  ///< dtype of attention's matmul operands
  config::LearnerForward forward = config::LearnerForward::bf16;
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;  ///< with low_bit (quantized.h)
  bool bitwise = false;                                                     ///< bit-identical to the decoder, with
                                                                            ///< low_bit
  quant::KvFormat kv_format = quant::KvFormat::int8;

  bool quantized() const { return forward != config::LearnerForward::bf16; }
  bool low_bit() const { return forward == config::LearnerForward::low_bit; }
};
inline Heads heads_of(const model::ModelConfig& config) {
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.rms_norm_eps};
}

/// Declares differentiable operations on one micro-batch's packed rows. Gradients of weights go to Weight::gradient.
/// The residual stream, norms and softmax are fp32. Only the graph holds the tensors of the backward pass.
class Ops {
 public:
  explicit Ops(const ForwardNumerics& numerics) : numerics_(numerics) {}
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;
  virtual ~Ops() = default;

  const ForwardNumerics& numerics() const { return numerics_; }
  virtual bool recomputes_norms() const { return false; }

  /// Gathers the tokens' rows of the embedding, fp32 [N, D]. Its result starts the graph.
  virtual Tensor embed(const Weight& table_VD) const = 0;
  /// Adds a branch and its bias to the residual stream, fp32, and computes the sum's RMSNorm in `out`.
  virtual Normed add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain,
                          torch::ScalarType out) const = 0;
  /// Computes x · Wᵀ, [N, out]. Its consumer, attention or add_norm, adds the bias. Unless needs_output, only gradients
  /// matter, and the product may be left out.
  virtual Tensor linear(const Linear& linear, const Recomputable& x, bool needs_output = true) const = 0;
  /// Applies bias, norms of q and k and rotation, then causal attention within each sequence: [N, H·E].
  virtual Tensor attention(const Tensor& qkv_NC, const QkvWeights& weights) const = 0;
  /// Computes silu(gate) · up of [N, 2F], gate first.
  virtual Recomputable swiglu(const Tensor& halves_N2F) const = 0;
  /// Computes second(swiglu(first(x))) if one fused operation has the same bits; else returns an undefined tensor.
  virtual Tensor fused_mlp(const Linear& /*first*/, const Linear& /*second*/, const Tensor& /*x*/) const { return {}; }

  /// Computes a sparse layer's mixture of experts, fp32 [N, D]: routes each row and sums its experts' gated outputs.
  /// `needs_output` as in linear.
  virtual Tensor mlp_of_experts(const LayerWeights& /*layer*/, const Recomputable& /*x*/, bool /*needs_output*/) const {
    QRL_INVARIANT(false, "forward pass", "a dense layer", "experts, which these operations lack");
  }

 private:
  ForwardNumerics numerics_;
};

struct ForwardOptions {
  /// Keeps only each layer's input. If norms can be recomputed, keeps the stream before each norm instead.
  bool activation_checkpointing = false;
  /// The decoder's residual stream after each layer, [N, D] fp32, or null. The forward pass takes these values; the
  /// backward pass recomputes each layer.
  const TensorList* after_layer = nullptr;
  /// Called in the backward pass when a layer's gradients are complete; may be empty.
  std::function<void(std::size_t layer)> layer_done;
};

/// Computes lm_head's input: the final norm's output, [N, D] in lm_head's dtype. Tensors of `weights` must outlive the
/// backward pass.
Tensor hidden_states(const PolicyWeights& weights, const std::shared_ptr<const Ops>& ops,
                     const ForwardOptions& options);

}  // namespace qrl::learner
