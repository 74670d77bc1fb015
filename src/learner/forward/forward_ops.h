#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "learner/forward/policy_weights.h"
#include "learner/options.h"
#include "model/config.h"
#include "quant/kv_format.h"

namespace qrl::learner {

struct ForwardNumerics {
  torch::ScalarType compute = torch::kBFloat16;  ///< dtype of matmuls' operands: bf16 or f32
  torch::ScalarType lm_head = torch::kBFloat16;  ///< dtype of lm_head and of its input
  /// If set, every `forward` mode uses the learner's lm_head instead of the snapshot's; `bitwise` never does.
  bool own_lm_head = false;
  torch::ScalarType between = torch::kBFloat16;    ///< dtype of values between the linear layers
  torch::ScalarType attention = torch::kBFloat16;  ///< dtype of attention's matmul operands
  LearnerForward forward = LearnerForward::bf16;
  LearnerBackward backward = LearnerBackward::model_dtype;
  bool bitwise = false;
  quant::KvFormat kv_format = quant::KvFormat::int8;

  bool quantized() const { return forward != LearnerForward::bf16; }
  bool low_bit() const { return forward == LearnerForward::low_bit; }
};
inline Heads heads_of(const model::ModelConfig& config) {
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim,     config.rms_norm_eps,
          config.qk_norm_whole,       config.rotary_dim(),        config.score_scale()};
}

/// Declares differentiable operations on one micro-batch's packed rows. Weights' gradients are added to
/// Weight::gradient. The residual stream, norms and softmax are fp32.
class Ops {
 public:
  explicit Ops(const ForwardNumerics& numerics) : numerics_(numerics) {}
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;
  virtual ~Ops() = default;

  const ForwardNumerics& numerics() const { return numerics_; }
  virtual bool recomputes_norms() const { return false; }

  /// Gathers the tokens' rows of the embedding, fp32 [N, D], times the model's multiplier. The result starts the
  /// autograd graph.
  virtual Tensor embed(const Weight& table_VD) const = 0;
  /// Adds a residual branch and its bias, times the model's multiplier, to the fp32 residual stream. Computes RMSNorm
  /// of the sum, in dtype `out`. Without a gain, the second result is the sum in dtype `out`.
  virtual Normed add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain,
                          torch::ScalarType out) const = 0;
  /// Computes x · Wᵀ, [N, out], without bias: attention or add_norm adds it. Unless needs_output, the result may be
  /// uninitialized.
  virtual Tensor linear(const Linear& linear, const Recomputable& x, bool needs_output = true) const = 0;
  /// Adds the bias, normalizes q and k, and applies the layer's RoPE to both. Computes causal attention, [N, H·E],
  /// within each sequence.
  virtual Tensor attention(const Tensor& qkv_NC, const QkvWeights& weights) const = 0;
  /// Computes a DeltaNet layer between its projections and out_proj, [N, Hv·dv]. gates_N2H: b, then a.
  virtual Tensor delta_net(const Tensor& /*projections_NC*/, const Tensor& /*gates_N2H*/,
                           const DeltaWeights& /*weights*/) const {
    QRL_INVARIANT(false, "forward pass", "layers of attention", "a DeltaNet, which these operations do not support");
  }
  /// Computes activation(gate) · up of [N, 2F], gate first.
  virtual Recomputable swiglu(const Tensor& halves_N2F) const = 0;
  /// Computes second(swiglu(first(x))) if a fused operation gives the same bits; else returns an undefined tensor.
  virtual Tensor fused_mlp(const Linear& /*first*/, const Linear& /*second*/, const Tensor& /*x*/) const { return {}; }

  /// Computes a sparse layer's mixture of experts, fp32 [N, D]. `needs_output` is as in `linear`.
  virtual Tensor mlp_of_experts(const LayerWeights& /*layer*/, const Recomputable& /*x*/, bool /*needs_output*/) const {
    QRL_INVARIANT(false, "forward pass", "a dense layer", "experts, which these operations do not support");
  }

 private:
  ForwardNumerics numerics_;
};

struct ForwardOptions {
  /// If set, keeps only each layer's input for the backward pass. With recomputes_norms(), keeps the residual stream at
  /// each norm instead.
  bool activation_checkpointing = false;
  /// If set, the decoder's residual stream after each layer, fp32 [N, D]. The forward pass uses these values and runs
  /// no layer; the backward pass recomputes each layer.
  const TensorList* after_layer = nullptr;
  /// Called in the backward pass when a layer's gradients are complete; may be empty.
  std::function<void(std::size_t layer)> layer_done;
};

/// Returns the final norm's output, [N, D] in lm_head's dtype. `weights` must outlive the backward pass.
Tensor hidden_states(const PolicyWeights& weights, const std::shared_ptr<const Ops>& ops,
                     const ForwardOptions& options);

}  // namespace qrl::learner
