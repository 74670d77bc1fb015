#include "learner/policy.h"

#include "learner/quantized.h"

namespace qrl::learner {

ForwardTypes forward_types(const ForwardOptions& options) {
  if (options.forward == config::LearnerForward::bf16) return {options.compute, options.compute};
  // As exact as the sampler's: its queries and softmax weights meet bf16 and fp8 pages as bf16, fp32 ones as they are.
  const bool exact = options.kv_format == quant::KvFormat::f32;
  return {torch::kFloat32, exact ? torch::kFloat32 : options.compute};
}

void tell_layer_done(const ForwardOptions& options, std::size_t idx, const Tensor& entering) {
  if (options.layer_done && entering.requires_grad())
    entering.register_hook([done = options.layer_done, idx](const Tensor&) { done(idx); });
}

TensorList through_layers(const PolicyWeights& weights, const ForwardOptions& options, const Layer& layer,
                          TensorList state) {
  const bool quantized = options.forward != config::LearnerForward::bf16;
  for (std::size_t idx = 0; idx < weights.layers.size(); ++idx) {
    const LayerWeights& w = weights.layers[idx];
    const model::LayerSnapshot* q = quantized ? &options.snapshot->layer_form(static_cast<std::int64_t>(idx)) : nullptr;
    // The gradients of both that enter leave the layer's first operation together; the branch's goes on first.
    tell_layer_done(options, idx, state[1].defined() ? state[1] : state[0]);
    if (options.activation_checkpointing) {
      state = checkpointed([layer, idx, &w, q](const TensorList& in) { return layer(idx, w, q, in); }, state);
    } else {
      state = layer(idx, w, q, state);
    }
  }
  return state;
}

Tensor hidden_states(const PolicyWeights& weights, const model::ModelConfig& config, const PackedRows& rows,
                     const ForwardOptions& options) {
  const Heads heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.rms_norm_eps};
  const bool quantized = options.forward != config::LearnerForward::bf16;
  const ForwardTypes dtypes = forward_types(options);
  const torch::ScalarType between = dtypes.between;
  const auto norm = [eps = config.rms_norm_eps](const Tensor& x_ND, const Branch& branch, const Weight& gain,
                                                torch::ScalarType out) {
    return add_rms_norm(x_ND, branch, gain, eps, out);
  };
  const auto project = [quantized, real = options.forward == config::LearnerForward::low_bit, compute = options.compute,
                        backward = options.backward](const Tensor& x, const Weight& w, const ops::PackedLinear* packed,
                                                     const Recompute& recompute_x) {
    if (!quantized) return linear(x, w, recompute_x);
    return quantized_linear(x, w, {packed, real, compute, backward});
  };
  const AttentionTypes types{dtypes.attention, between};
  const auto attend = [&rows, heads, types, compute = options.compute, pages = options.pages,
                       format = options.kv_format](const Recomputable& qkv) {
    return pages != nullptr ? sampled_attention(qkv.value, rows, *pages, heads, format, compute)
                            : attention(qkv, rows, heads, types);
  };
  const auto layer = [&rows, heads, norm, project, attend, between, quantized,
                      low_bit = options.forward == config::LearnerForward::low_bit](
                         std::size_t, const LayerWeights& w, const model::LayerSnapshot* q, const TensorList& in) {
    const Normed before = norm(in[0], {in[1]}, w.input_norm_D, between);
    const Tensor qkv_NC =
        project(before.normed_ND, w.qkv.weight, q != nullptr ? &q->qkv : nullptr, before.recompute_normed);
    const Recomputable turned = qkv_transform(qkv_NC, rows, heads, w.transform(), quantized);
    const Tensor attended_NHE = attend(turned);
    const Tensor mixed_ND = project(attended_NHE, w.o.weight, q != nullptr ? &q->o : nullptr, {});
    const Normed after = norm(before.sum_ND, {mixed_ND, w.o.bias, quantized}, w.post_norm_D, between);
    if (low_bit && !torch::GradMode::is_enabled())  // no backward pass to keep anything for
      return TensorList{after.sum_ND, quantized_mlp(after.normed_ND, q->gate_up, q->down)};
    const Tensor halves_N2F =
        project(after.normed_ND, w.gate_up.weight, q != nullptr ? &q->gate_up : nullptr, after.recompute_normed);
    const Recomputable gated = swiglu(halves_N2F);
    return TensorList{after.sum_ND,
                      project(gated.value, w.down.weight, q != nullptr ? &q->down : nullptr, gated.recompute)};
  };

  const Tensor table_VD = quantized ? snapshot_embedding(*options.snapshot) : weights.embedding.value;
  const Tensor x_ND = embed(rows, weights.embedding, table_VD, quantized ? table_VD.scalar_type() : options.compute);
  const TensorList state = through_layers(weights, options, layer, {x_ND, Tensor()});
  return norm(state[0], {state[1]}, weights.final_norm, options.lm_head_dtype).normed_ND;
}

}  // namespace qrl::learner
