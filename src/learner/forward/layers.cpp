#include "learner/forward/layers.h"

#include "ops/matmul.h"
#include "ops/training.h"

namespace qrl::learner {

namespace {

Tensor make(std::int64_t rows, std::int64_t width, torch::ScalarType dtype) {
  return torch::empty({rows, width}, torch::TensorOptions().dtype(dtype));
}

ops::Operand operand(const Tensor& matrix, bool transposed = false) {
  TORCH_INTERNAL_ASSERT(matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1));
  return {{matrix.data_ptr(), matrix.scalar_type() == torch::kBFloat16}, matrix.stride(0), transposed};
}

ops::MatmulType type_of(const Tensor& x) {
  return x.scalar_type() == torch::kBFloat16 ? ops::MatmulType::bf16 : ops::MatmulType::f32;
}

Tensor product(const Tensor& x, const ops::Operand& right, std::int64_t columns, torch::ScalarType out,
               const LowRankProduct& more) {
  const Tensor y = make(x.size(0), columns, out);
  ops::Matmul task{type_of(x), x.size(0), columns, x.size(1), operand(x), right, mixed(y), columns};
  if (more.left.defined()) {
    task.more_left = operand(more.left);
    task.more_right = operand(more.right);
    task.more_depth = more.left.size(1);
  }
  ops::matmul(task);
  return y;
}

Tensor contiguous_or_zeros(const Tensor& gradient, std::int64_t rows, std::int64_t width, torch::ScalarType dtype) {
  return gradient.defined() ? gradient.contiguous() : make(rows, width, dtype).zero_();
}

ops::QkvTransform transform_args(const Tensor& qkv_NC, const PackedRows& rows, const Heads& heads,
                                 const QkvWeights& weights, bool bias_is_in) {
  ops::QkvTransform args;
  args.rows = rows.num_rows();
  args.num_heads = heads.num_heads;
  args.num_kv_heads = heads.num_kv_heads;
  args.head_dim = heads.head_dim;
  args.bias = bias_is_in ? nullptr : floats(weights.bias.value);
  args.q_gain = floats(weights.q_gain.value);
  args.k_gain = floats(weights.k_gain.value);
  args.eps = heads.norm_eps;
  args.rotary_dim = weights.rope != model::RopeKind::none ? heads.table_width() : 0;
  args.rope_table = weights.rope == model::RopeKind::sliding ? rows.sliding_rope_table : rows.rope_table;
  args.positions = rows.positions.data();
  args.round_kv_to_bf16 = qkv_NC.scalar_type() == torch::kBFloat16;
  args.in = mixed(qkv_NC);
  return args;
}

}  // namespace

ops::VarlenAttention attention_args(const PackedRows& rows, const Heads& heads, const Tensor& qkv_NC,
                                    torch::ScalarType matmuls) {
  return {rows.sequence_starts.data(),
          rows.num_sequences(),
          rows.continues_prefix.empty() ? nullptr : rows.continues_prefix.data(),
          heads.num_heads,
          heads.num_kv_heads,
          heads.head_dim,
          floats(qkv_NC),
          matmuls == torch::kBFloat16 ? ops::MatmulType::bf16 : ops::MatmulType::f32,
          heads.score_scale,
          heads.window};
}

Tensor times_transposed(const Tensor& x, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more) {
  return product(x, operand(weight, true), weight.size(0), out, more);
}

Tensor times(const Tensor& d_y, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more) {
  return product(d_y, operand(weight), weight.size(1), out, more);
}

void accumulate_weight_gradient(const Tensor& d_y, const Tensor& x, const Tensor& gradient) {
  if (!gradient.defined()) return;
  ops::matmul({type_of(d_y), d_y.size(1), x.size(1), d_y.size(0), operand(d_y, true), operand(x), mixed(gradient),
               x.size(1), true});
}

Tensor embed(const PackedRows& rows, const Weight& table_VD, const Tensor& values_VD, torch::ScalarType compute) {
  // One empty leaf represents all weights in the autograd graph.
  const Tensor leaf = torch::empty({0}).set_requires_grad(true);
  const Tensor tokens_N =
      torch::from_blob(const_cast<std::int32_t*>(rows.tokens.data()), {rows.num_rows()}, torch::kInt32);
  const Tensor x_ND = torch::embedding(values_VD, tokens_N).to(compute).to(torch::kFloat32);
  return differentiable({leaf}, {x_ND}, [&rows, table_VD](const TensorList& d) {
    if (!table_VD.gradient.defined()) return TensorList(1);
    const Tensor d_ND = d[0].contiguous();
    ops::embedding_backward(rows.tokens.data(), rows.num_rows(), d_ND.size(1), floats(d_ND), floats(table_VD.gradient));
    return TensorList(1);
  })[0];
}

Tensor linear(const Tensor& x, const Weight& weight, Recompute recompute_x, bool needs_output) {
  const torch::ScalarType type = x.scalar_type();
  if (!recompute_x) recompute_x = [kept = x.detach()] { return kept; };
  const Tensor y =
      needs_output ? times_transposed(x.detach(), weight.value, type) : make(x.size(0), weight.value.size(0), type);
  return differentiable({x}, {y}, [recompute_x, weight, type](const TensorList& d) {
    const Tensor d_y = d[0].contiguous();
    accumulate_weight_gradient(d_y, recompute_x(), weight.gradient);
    return TensorList{times(d_y, weight.value, type)};
  })[0];
}

namespace {

/// Computes add_rms_norm without a norm.
Normed add_branch(const Tensor& x_ND, const Branch& branch, torch::ScalarType compute) {
  QRL_INVARIANT(!branch.bias.defined(), "residual sum", "branches without biases where no norm follows", "a bias");
  const Tensor sum_ND = branch.value_ND.defined()
                            ? x_ND + branch.value_ND.to(torch::kFloat32).mul(static_cast<double>(branch.factor))
                            : x_ND;
  return {sum_ND, sum_ND.to(compute), [kept = sum_ND.detach(), compute] { return kept.to(compute); }};
}

}  // namespace

Normed add_rms_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, float eps,
                    torch::ScalarType compute) {
  if (!gain.defined()) return add_branch(x_ND, branch, compute);
  const Tensor& branch_ND = branch.value_ND;
  const std::int64_t rows = x_ND.size(0), width = x_ND.size(1);
  const bool has_branch = branch_ND.defined();
  const Tensor normed_ND = make(rows, width, compute), inverse_rms_N = torch::empty({rows});
  const Tensor sum_ND = has_branch ? make(rows, width, torch::kFloat32) : x_ND.detach();
  ops::add_rms_norm({rows, width, eps, floats(x_ND), mixed(branch_ND),
                     branch.bias_is_in ? nullptr : floats(branch.bias.value), floats(gain.value), floats(sum_ND),
                     mixed(normed_ND), floats(inverse_rms_N), branch.factor});

  const Recompute recompute_normed = [rows, width, compute, eps, gain, inverse_rms_N, kept_sum = sum_ND.detach()] {
    const Tensor again_ND = make(rows, width, compute);
    ops::add_rms_norm({rows,
                       width,
                       eps,
                       floats(kept_sum),
                       {},
                       nullptr,
                       floats(gain.value),
                       floats(kept_sum),
                       mixed(again_ND),
                       floats(inverse_rms_N)});
    return again_ND;
  };
  const auto backward = [rows, width, compute, has_branch, gain, d_bias = branch.bias.gradient, inverse_rms_N,
                         factor = branch.factor,
                         kept_sum = sum_ND.detach()](const Tensor& d_sum, const Tensor& d_normed) {
    const Tensor d_normed_ND = contiguous_or_zeros(d_normed, rows, width, compute);
    const Tensor d_sum_ND = d_sum.defined() ? d_sum.contiguous() : d_sum;
    const Tensor dx = make(rows, width, torch::kFloat32);
    const bool is_dx = compute == torch::kFloat32 && factor == 1;
    const Tensor dy = has_branch && !is_dx ? make(rows, width, compute) : Tensor();
    ops::add_rms_norm_backward({rows, width, floats(kept_sum), floats(gain.value), floats(inverse_rms_N),
                                mixed(d_normed_ND), floats(d_sum_ND), floats(dx), mixed(dy), floats(gain.gradient),
                                floats(d_bias), factor});
    return std::pair(dx, has_branch && !dy.defined() ? dx : dy);
  };
  if (!has_branch) {
    const TensorList out = differentiable(
        {x_ND}, {normed_ND}, [backward](const TensorList& d) { return TensorList{backward({}, d[0]).first}; });
    return {x_ND, out[0], recompute_normed};
  }
  const TensorList out = differentiable({x_ND, branch_ND}, {sum_ND, normed_ND}, [backward](const TensorList& d) {
    const auto [dx, dy] = backward(d[0], d[1]);
    return TensorList{dx, dy};
  });
  return {out[0], out[1], recompute_normed};
}

Tensor normed_projections(const Tensor& qkv_NC, const Heads& heads, const QkvWeights& weights) {
  const std::int64_t q = heads.num_heads * heads.head_dim, kv = heads.num_kv_heads * heads.head_dim;
  const auto normed = [&](std::int64_t first, std::int64_t width, const Weight& gain) {
    const Tensor part = qkv_NC.narrow(1, first, width).to(torch::kFloat32).contiguous();
    return add_rms_norm(part, {}, gain, heads.norm_eps, qkv_NC.scalar_type()).normed_ND;
  };
  return torch::cat({normed(0, q, weights.q_gain), normed(q, kv, weights.k_gain), qkv_NC.narrow(1, q + kv, kv)}, 1);
}

Recomputable qkv_transform(const Tensor& qkv_NC, const PackedRows& rows, const Heads& heads, const QkvWeights& weights,
                           bool bias_is_in) {
  const std::int64_t num_rows = qkv_NC.size(0);
  const Tensor inverse_rms =
      weights.q_gain.defined() ? make(num_rows, heads.num_heads + heads.num_kv_heads, torch::kFloat32) : Tensor();
  const Recompute recompute = [qkv_NC, inverse_rms, heads, weights, bias_is_in, &rows] {
    const Tensor out_NC = make(qkv_NC.size(0), qkv_NC.size(1), torch::kFloat32);
    ops::qkv_transform(transform_args(qkv_NC, rows, heads, weights, bias_is_in), floats(out_NC), floats(inverse_rms));
    return out_NC;
  };
  const TensorList out = differentiable(
      {qkv_NC}, {recompute()}, [qkv_NC, inverse_rms, heads, weights, bias_is_in, &rows](const TensorList& d) {
        const Tensor d_out_NC = d[0].contiguous(), d_in_NC = torch::empty_like(qkv_NC);
        ops::qkv_transform_backward(transform_args(qkv_NC, rows, heads, weights, bias_is_in), floats(inverse_rms),
                                    {floats(d_out_NC), mixed(d_in_NC), floats(weights.bias.gradient),
                                     floats(weights.q_gain.gradient), floats(weights.k_gain.gradient)});
        return TensorList{d_in_NC};
      });
  return {out[0], recompute};
}

Tensor attention(const Recomputable& qkv, const PackedRows& rows, const Heads& heads, const AttentionTypes& types) {
  const Tensor& qkv_NC = qkv.value;
  const std::int64_t num_rows = qkv_NC.size(0);
  const Tensor out_NHE = make(num_rows, heads.num_heads * heads.head_dim, types.out);
  const Tensor lse_NH = make(num_rows, heads.num_heads, torch::kFloat32);
  ops::varlen_attention(attention_args(rows, heads, qkv_NC, types.matmuls), mixed(out_NHE), floats(lse_NH));
  return differentiable({qkv_NC}, {out_NHE},
                        [recompute = qkv.recompute, lse_NH, heads, types, &rows](const TensorList& d) {
                          const Tensor qkv_NC_recomputed = recompute();
                          const Tensor d_out_NHE = d[0].contiguous(), d_qkv_NC = torch::empty_like(qkv_NC_recomputed);
                          ops::varlen_attention_backward(attention_args(rows, heads, qkv_NC_recomputed, types.matmuls),
                                                         floats(lse_NH), mixed(d_out_NHE), floats(d_qkv_NC));
                          return TensorList{d_qkv_NC};
                        })[0];
}

Recomputable swiglu(const Tensor& halves_N2F, base::Gate activation) {
  const std::int64_t rows = halves_N2F.size(0), width = halves_N2F.size(1) / 2;
  const Recompute recompute = [halves_N2F, rows, width, activation] {
    const Tensor out_NF = make(rows, width, halves_N2F.scalar_type());
    ops::swiglu(activation, rows, width, mixed(halves_N2F), mixed(out_NF));
    return out_NF;
  };
  const TensorList out =
      differentiable({halves_N2F}, {recompute()}, [halves_N2F, rows, width, activation](const TensorList& d) {
        const Tensor d_out_NF = d[0].contiguous(), d_in_N2F = halves_N2F.detach();
        ops::swiglu_backward(activation, rows, width, mixed(halves_N2F), mixed(d_out_NF), mixed(d_in_N2F));
        return TensorList{d_in_N2F};
      });
  return {out[0], recompute};
}

}  // namespace qrl::learner
