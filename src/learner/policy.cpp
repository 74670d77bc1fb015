#include "learner/policy.h"

namespace qrl::learner {

Tensor hidden_states(const PolicyWeights& weights, const model::ModelConfig& config, const PackedRows& rows,
                     const ForwardOptions& options) {
  const Heads heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.rms_norm_eps};
  const auto norm = [&config, compute = options.compute](const Tensor& x_ND, const Tensor& branch_ND,
                                                         const Weight& gain) {
    return add_rms_norm(x_ND, branch_ND, gain, config.rms_norm_eps, compute);
  };
  // A layer takes and gives (residual stream, branch still to be added to it): the sum belongs to the next norm.
  const auto layer = [&rows, heads, norm, compute = options.compute](const LayerWeights& w, const TensorList& in) {
    const Normed before = norm(in[0], in[1], w.input_norm);
    const Tensor qkv_NC = qkv_transform(linear(before.normed_ND, w.qkv), rows, heads, w.transform);
    const Tensor mixed_ND = linear(attention(qkv_NC, rows, heads, compute), w.o);
    const Normed between = norm(before.sum_ND, mixed_ND, w.post_norm);
    return TensorList{between.sum_ND, linear(swiglu(linear(between.normed_ND, w.gate_up)), w.down)};
  };

  TensorList state{embed(rows, weights.embedding), Tensor()};
  for (const LayerWeights& w : weights.layers) {
    if (options.activation_checkpointing) {
      state = checkpointed([layer, &w](const TensorList& in) { return layer(w, in); }, state);
    } else {
      state = layer(w, state);
    }
  }
  return norm(state[0], state[1], weights.final_norm).normed_ND;
}

}  // namespace qrl::learner
