#include "learner/forward/forward_ops.h"

namespace qrl::learner {

namespace {

/// Normalizes what attention or MLP adds to the residual stream; without a gain, returns it.
Tensor normed_branch(const Ops& ops, const Tensor& y_ND, const Weight& norm, float offset) {
  if (!norm.defined()) return y_ND;
  return ops.add_norm(y_ND.to(torch::kFloat32), {}, gain_of(norm, offset), ops.numerics().between).normed_ND;
}

Tensor dense_mlp(const Ops& ops, const LayerWeights& w, const Recomputable& x, bool needs_output) {
  if (const Tensor y_ND = ops.fused_mlp(w.gate_up, w.down, x.value); y_ND.defined()) return y_ND;
  const Tensor halves_N2F = ops.linear(w.gate_up, x);
  return ops.linear(w.down, ops.swiglu(halves_N2F), needs_output);
}

Tensor mlp(const Ops& ops, const LayerWeights& w, const Recomputable& x, bool needs_output) {
  if (w.is_sparse()) return ops.mlp_of_experts(w, x, needs_output);
  return normed_branch(ops, dense_mlp(ops, w, x, needs_output || w.mlp_norm_D.defined()), w.mlp_norm_D, w.norm_offset);
}

/// Computes attention or a DeltaNet, up to the output projection.
Tensor mixed_tokens(const Ops& ops, const LayerWeights& w, const Recomputable& x) {
  if (w.kind == model::LayerKind::attention) return ops.attention(ops.linear(w.qkv, x), w.transform());
  const Recomputable kept{x.value, {}};  // two matrices read x, so it is kept once
  return ops.delta_net(ops.linear(w.qkvz, kept), ops.linear(w.ba, kept), w.delta());
}

Tensor mixer(const Ops& ops, const LayerWeights& w, const Recomputable& x, bool needs_output) {
  const Tensor attended_NHE = mixed_tokens(ops, w, x);
  return normed_branch(ops, ops.linear(w.o, {attended_NHE, {}}, needs_output || w.attention_norm_D.defined()),
                       w.attention_norm_D, w.norm_offset);
}

/// Computes the mixer of tokens or the MLP from the normalized residual stream. In recomputation, needs_output is
/// false, and the result is uninitialized.
using Part = std::function<Tensor(const Recomputable& x, bool needs_output)>;

/// Runs `part` and keeps nothing; the backward pass recomputes x and the part.
Tensor checkpointed(const Part& part, const Recomputable& x) {
  Tensor y;
  {
    const torch::NoGradGuard no_grad;
    y = part(x, true);
  }
  return differentiable({x.value}, {y}, [part, recompute = x.recompute](const TensorList& d) {
    Tensor leaf, again;
    {
      const torch::AutoGradMode with_grad(true);
      leaf = recompute().detach().set_requires_grad(true);
      again = part({leaf, [kept = leaf.detach()] { return kept; }}, false);
    }
    return torch::autograd::grad({again}, {leaf}, {d[0]});
  })[0];
}

/// Computes a layer. Takes and returns {residual stream, branch that the next norm adds}. With `checkpoints_parts`,
/// keeps only the residual stream at each norm. Unless needs_output, the returned branch is uninitialized.
TensorList block(const std::shared_ptr<const Ops>& ops, const LayerWeights& w, const TensorList& stream_and_branch,
                 bool needs_output, bool checkpoints_parts = false) {
  const torch::ScalarType between = ops->numerics().between;
  const auto computed = [&](const Part& part, const Normed& from, bool its_is_read) {
    const Recomputable x{from.normed_ND, from.recompute_normed};
    return checkpoints_parts ? checkpointed(part, x) : part(x, its_is_read);
  };
  const Normed before =
      ops->add_norm(stream_and_branch[0], {stream_and_branch[1]}, gain_of(w.input_norm_D, w.norm_offset), between);
  const Tensor mixed_ND =
      computed([ops, &w](const Recomputable& x, bool read) { return mixer(*ops, w, x, read); }, before, true);
  const Normed after =
      ops->add_norm(before.sum_ND, {mixed_ND, w.o.bias}, gain_of(w.post_norm_D, w.norm_offset), between);
  return {after.sum_ND,
          computed([ops, &w](const Recomputable& x, bool read) { return mlp(*ops, w, x, read); }, after, needs_output)};
}

/// Calls options.layer_done when the gradient of `entering`, the layer's input, is complete. All the layer's gradients
/// are then complete.
void report_layer_done(const ForwardOptions& options, std::size_t idx, const Tensor& entering) {
  if (options.layer_done && entering.requires_grad())
    entering.register_hook([done = options.layer_done, idx](const Tensor&) { done(idx); });
}

}  // namespace

Tensor hidden_states(const PolicyWeights& weights, const std::shared_ptr<const Ops>& ops,
                     const ForwardOptions& options) {
  TensorList state = {ops->embed(weights.embedding), Tensor()};
  for (std::size_t idx = 0; idx < weights.layers.size(); ++idx) {
    const auto layer = [ops, &w = weights.layers[idx]](const TensorList& in, bool needs_output) {
      return block(ops, w, in, needs_output);
    };
    // In the backward pass, the layer's first operation computes the gradients of stream and branch. The branch's hook
    // runs first.
    report_layer_done(options, idx, state[1].defined() ? state[1] : state[0]);
    if (options.after_layer != nullptr) {
      const auto sum = [layer](const TensorList& in) {  // the decoder's stream includes the branch
        const TensorList out = layer({in[0], Tensor()}, false);
        return TensorList{out[0] + out[1].to(torch::kFloat32)};
      };
      state = {recomputed(sum, {state[0]}, {(*options.after_layer)[idx]})[0], Tensor()};
    } else if (options.activation_checkpointing && ops->recomputes_norms()) {
      state = block(ops, weights.layers[idx], state, true, true);
    } else if (options.activation_checkpointing) {
      // The backward pass runs the layer again, with autograd, but without computing the returned branch.
      const auto first_or_again = [layer](const TensorList& in) { return layer(in, !torch::GradMode::is_enabled()); };
      state = checkpointed(first_or_again, state);
    } else {
      state = layer(state, true);
    }
  }
  const Weight gain = gain_of(weights.final_norm, weights.norm_offset);
  return ops->add_norm(state[0], {state[1]}, gain, ops->numerics().lm_head).normed_ND;
}

}  // namespace qrl::learner
