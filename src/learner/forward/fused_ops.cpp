#include "learner/forward/fused_ops.h"

#include "base/threads.h"
#include "learner/forward/attention_gate.h"
#include "learner/forward/quantized.h"
#include "ops/paged_attention.h"
#include "ops/varlen_attention.h"

namespace qrl::learner {

PageLayout::PageLayout(const PackedRows& rows) {
  const std::int64_t num_sequences = rows.num_sequences();
  tables.resize(static_cast<std::size_t>(num_sequences));
  table_of_row_N.resize(rows.tokens.size());
  std::int64_t prefix = 0, prefix_rows = 0;
  for (std::int64_t s = 0; s < num_sequences; ++s) {
    const auto idx = static_cast<std::size_t>(s);
    const std::int64_t begin = rows.sequence_starts[idx], end = rows.sequence_starts[idx + 1];
    const bool continues = !rows.continues_prefix.empty() && rows.continues_prefix[idx] != 0;
    if (!continues) {
      prefix = s;
      prefix_rows = end - begin;
    }
    std::vector<std::int32_t>& table = tables[idx];
    const std::int64_t shared = continues ? prefix_rows : 0, total = shared + (continues ? end - begin : prefix_rows);
    const std::vector<std::int32_t>& of_prefix = tables[static_cast<std::size_t>(prefix)];
    for (std::int64_t at = 0; at < total; at += kPageSize) {
      const bool reads_prefix = at + kPageSize <= shared;
      if (reads_prefix) {
        table.push_back(of_prefix[static_cast<std::size_t>(at / kPageSize)]);
        continue;
      }
      const auto page = static_cast<std::int32_t>(num_pages++);
      table.push_back(page);
      if (at < shared) copies.push_back({of_prefix[static_cast<std::size_t>(at / kPageSize)], page, shared - at});
    }
    for (std::int64_t row = begin; row < end; ++row) table_of_row_N[static_cast<std::size_t>(row)] = table.data();
  }
}

Tensor sampled_attention(const Tensor& qkv_NC, const PackedRows& rows, const PageLayout& layout, const Heads& heads,
                         quant::KvFormat format, torch::ScalarType backward) {
  const ops::HeadShape shape{heads.num_heads, heads.num_kv_heads, heads.head_dim, heads.score_scale, heads.window};
  const std::int64_t num_rows = rows.num_rows(), width = heads.num_heads * heads.head_dim;
  const Tensor out_NHE = torch::empty({num_rows, width}), lse_NH = torch::empty({num_rows, heads.num_heads});
  {
    const std::int64_t side = layout.num_pages * ops::kv_page_bytes(shape, format, PageLayout::kPageSize);
    const Tensor memory = torch::empty({2 * side}, torch::kUInt8);
    ops::KvPages pages{format, layout.num_pages, PageLayout::kPageSize};
    pages.keys = reinterpret_cast<std::byte*>(memory.data_ptr<std::uint8_t>());
    pages.values = pages.keys + side;
    const ops::AttentionRows where{rows.positions.data(), layout.table_of_row_N.data()};
    auto* qkv = qkv_NC.data_ptr<float>();
    base::parallel(0, [&](base::Team& team) {
      ops::store_kv(team, shape, where, {0, num_rows}, pages, true, qkv);
      team.barrier();
      const base::Range mine = team.slice(static_cast<std::int64_t>(layout.copies.size()));
      for (std::int64_t i = mine.begin; i < mine.end; ++i) {
        const PageLayout::Copy& copy = layout.copies[static_cast<std::size_t>(i)];
        ops::copy_slots(shape, pages, copy.from, copy.to, copy.num_slots);
      }
      team.barrier();
      ops::paged_attention(team, shape, where, {0, num_rows}, pages, qkv, out_NHE.data_ptr<float>(),
                           lse_NH.data_ptr<float>());
    });
  }
  return differentiable({qkv_NC}, {out_NHE}, [qkv_NC, lse_NH, heads, backward, &rows](const TensorList& d) {
    const Tensor d_out_NHE = d[0].contiguous(), d_qkv_NC = torch::empty_like(qkv_NC);
    ops::varlen_attention_backward(attention_args(rows, heads, qkv_NC, backward), lse_NH.data_ptr<float>(),
                                   {d_out_NHE.data_ptr(), d_out_NHE.scalar_type() == torch::kBFloat16},
                                   d_qkv_NC.data_ptr<float>());
    return TensorList{d_qkv_NC};
  })[0];
}

FusedOps::FusedOps(const PackedRows& rows, const model::ModelConfig& config, const ForwardNumerics& numerics,
                   const model::Snapshot* snapshot)
    : Ops(numerics),
      rows_(rows),
      heads_(heads_of(config)),
      embedding_multiplier_(config.embedding_multiplier),
      residual_multiplier_(config.residual_multiplier),
      gate_(config.gate),
      delta_(model::delta_shape(config)),
      router_(model::router_of(config)),
      snapshot_(snapshot) {
  if (numerics.bitwise) pages_.emplace(rows);
}

Tensor FusedOps::embed(const Weight& table_VD) const {
  const Tensor values_VD = numerics().quantized() ? snapshot_embedding(*snapshot_) : table_VD.value;
  const Tensor x_ND =
      learner::embed(rows_, table_VD, values_VD, numerics().quantized() ? values_VD.scalar_type() : numerics().compute);
  return embedding_multiplier_ == 1 ? x_ND : x_ND * static_cast<double>(embedding_multiplier_);
}

Normed FusedOps::add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, torch::ScalarType out) const {
  const bool bias_is_in = numerics().quantized();
  return add_rms_norm(x_ND, {branch.value_ND, branch.bias, bias_is_in, residual_multiplier_}, gain, heads_.norm_eps,
                      out);
}

Tensor FusedOps::linear(const Linear& linear, const Recomputable& x, bool needs_output) const {
  if (!linear.adapter.empty()) return adapted_linear(linear, x, numerics(), needs_output);
  if (linear.quantized == nullptr) return learner::linear(x.value, linear.weight, x.recompute, needs_output);
  return quantized_linear(x.value, linear.weight,
                          {linear.quantized, numerics().low_bit(), numerics().compute, numerics().backward},
                          needs_output);
}

Tensor FusedOps::attention(const Tensor& qkv_NC, const QkvWeights& weights) const {
  if (weights.gated) {
    const auto [own_NC, gates_NQ] = split_gates(qkv_NC, heads_);
    QkvWeights rest = weights;
    rest.gated = false;
    return apply_gates(attention(own_NC, rest), gates_NQ);
  }
  const bool is_whole = heads_.norms_whole && weights.q_gain.defined();
  const Recomputable rotated = is_whole ? qkv_transform(normed_projections(qkv_NC, heads_, weights), rows_, heads_,
                                                        {weights.bias, {}, {}, weights.rope}, numerics().quantized())
                                        : qkv_transform(qkv_NC, rows_, heads_, weights, numerics().quantized());
  Heads heads = heads_;
  heads.window = weights.window;
  if (!pages_) return learner::attention(rotated, rows_, heads, {numerics().attention, numerics().between});
  return sampled_attention(rotated.value, rows_, *pages_, heads, numerics().kv_format, numerics().compute);
}

Tensor FusedOps::delta_net(const Tensor& projections_NC, const Tensor& gates_N2H, const DeltaWeights& weights) const {
  return learner::delta_net(projections_NC, gates_N2H, weights, rows_, delta_, numerics().between);
}

Recomputable FusedOps::swiglu(const Tensor& halves_N2F) const { return learner::swiglu(halves_N2F, gate_); }

Tensor FusedOps::fused_mlp(const Linear& first, const Linear& second, const Tensor& x) const {
  if (!numerics().low_bit() || torch::GradMode::is_enabled()) return {};
  return quantized_mlp(x, first, second, gate_);
}

Tensor FusedOps::mlp_of_experts(const LayerWeights& layer, const Recomputable& x, bool needs_output) const {
  const EnteredExperts entered = enter_experts(router_, layer, x, numerics(), *rows_.routes);
  const auto gated = [&](std::int64_t expert) {
    return swiglu(linear(layer.expert_gate_up.of(expert), {entered.rows_of(expert), {}}, true));
  };
  return leave_experts(layer, entered, gated, numerics(), needs_output);
}

}  // namespace qrl::learner
