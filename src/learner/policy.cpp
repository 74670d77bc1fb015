#include "learner/policy.h"

namespace qrl::learner {

namespace {

Tensor mlp(const Ops& ops, const LayerWeights& w, const Recomputable& x, bool is_read) {
  if (const Tensor y_ND = ops.fused_mlp(w.gate_up, w.down, x.value); y_ND.defined()) return y_ND;
  const Tensor halves_N2F = ops.linear(w.gate_up, x);
  return ops.linear(w.down, ops.swiglu(halves_N2F), is_read);
}

/// Takes and returns {residual stream, branch still to be added to it}: the sum belongs to the next norm. Where the
/// branch is not read, as in a layer that is computed once more for its gradients, it has no values.
TensorList block(const Ops& ops, const LayerWeights& w, const TensorList& stream_and_branch, bool is_read) {
  const torch::ScalarType between = ops.numerics().between;
  const Normed before = ops.add_norm(stream_and_branch[0], {stream_and_branch[1]}, w.input_norm_D, between);
  const Tensor qkv_NC = ops.linear(w.qkv, {before.normed_ND, before.recompute_normed});
  const Tensor attended_NHE = ops.attention(qkv_NC, w.transform());
  const Tensor mixed_ND = ops.linear(w.o, {attended_NHE, {}});
  const Normed after = ops.add_norm(before.sum_ND, {mixed_ND, w.o.bias}, w.post_norm_D, between);
  return {after.sum_ND, mlp(ops, w, {after.normed_ND, after.recompute_normed}, is_read)};
}

/// Has options.layer_done called when the backward pass has the whole gradient of what enters that layer: all that
/// comes from the layer itself was computed before.
void report_layer_done(const ForwardOptions& options, std::size_t idx, const Tensor& entering) {
  if (options.layer_done && entering.requires_grad())
    entering.register_hook([done = options.layer_done, idx](const Tensor&) { done(idx); });
}

}  // namespace

Tensor hidden_states(const PolicyWeights& weights, const std::shared_ptr<const Ops>& ops,
                     const ForwardOptions& options) {
  TensorList state = {ops->embed(weights.embedding), Tensor()};
  for (std::size_t idx = 0; idx < weights.layers.size(); ++idx) {
    // A recomputed layer needs the operations once more.
    const auto layer = [ops, &w = weights.layers[idx]](const TensorList& in, bool is_read) {
      return block(*ops, w, in, is_read);
    };
    // The gradients of both that enter leave the layer's first operation together; the branch's goes on first.
    report_layer_done(options, idx, state[1].defined() ? state[1] : state[0]);
    if (options.after_layer != nullptr) {
      const auto sum = [layer](const TensorList& in) {  // what the decoder keeps is stream and branch together
        const TensorList out = layer({in[0], Tensor()}, false);
        return TensorList{out[0] + out[1].to(torch::kFloat32)};
      };
      state = {recomputed(sum, {state[0]}, {(*options.after_layer)[idx]})[0], Tensor()};
    } else if (options.activation_checkpointing) {
      // Autograd is off the first time, on when the backward pass wants the layer again: its branch is known by then.
      const auto first_or_again = [layer](const TensorList& in) { return layer(in, !torch::GradMode::is_enabled()); };
      state = checkpointed(first_or_again, state);
    } else {
      state = layer(state, true);
    }
  }
  return ops->add_norm(state[0], {state[1]}, weights.final_norm, ops->numerics().lm_head).normed_ND;
}

}  // namespace qrl::learner
