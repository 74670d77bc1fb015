#include "decoder/cpu/transformer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/rope.h"

namespace qrl::decoder {

using base::Buffer;
using base::DType;
using base::Range;

ObservedInputs::ObservedInputs(const model::ModelConfig& config)
    : amax_L(static_cast<std::size_t>(config.num_hidden_layers)) {
  for (std::size_t idx = 0; idx < amax_L.size(); ++idx) {
    model::visit_matrices(
        config, static_cast<std::int64_t>(idx),
        [&](const model::BlockMatrix& matrix, const auto& of) {
          if (!matrix.norm.empty()) of(amax_L[idx]).resize(static_cast<std::size_t>(matrix.in));
        },
        [](const model::BlockExperts&, const auto&) {});
  }
}

void ObservedInputs::note(const ops::Activations& input, Range rows, std::vector<float>& amax_D) {
  std::vector<float> values(static_cast<std::size_t>(input.width));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    ops::dequantize_row(input, row, values.data());
    for (std::size_t i = 0; i < values.size(); ++i) amax_D[i] = std::max(amax_D[i], std::fabs(values[i]));
  }
}

ObservedQueries::ObservedQueries(const model::ModelConfig& config, std::int64_t num_rows)
    : q_LNQ(DType::f32, {config.num_attention_layers(), num_rows, config.q_size()}),
      row_width(config.q_size() + 2 * config.kv_size()) {}

void ObservedQueries::note(std::int64_t attention_idx, std::int64_t first, Range rows, const float* qkv) {
  const std::int64_t num_rows = q_LNQ.shape()[1], width = q_LNQ.shape()[2];
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    std::copy_n(qkv + row * row_width, width, q_LNQ.as<float>() + (attention_idx * num_rows + first + row) * width);
}

LayerOutputs::LayerOutputs(const model::ModelConfig& config, std::int64_t num_tokens)
    : x_LTD(DType::f32, {config.num_hidden_layers + 1, num_tokens, config.hidden_size}) {}

void LayerOutputs::note(std::int64_t stage, std::span<const std::int32_t> positions, const float* x_ND) {
  const std::int64_t num_tokens = x_LTD.shape()[1], width = x_LTD.shape()[2];
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::copy_n(x_ND + static_cast<std::int64_t>(i) * width, width,
                x_LTD.as<float>() + (stage * num_tokens + positions[i]) * width);
  }
}

namespace {

ops::HeadShape head_shape(const model::ModelConfig& config) {
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.score_scale()};
}

bool has_plain_branches(const model::ModelConfig& config) {
  return config.residual_multiplier == 1 && config.norms == model::NormPlace::before;
}

}  // namespace

Transformer::QuantizedActivations::QuantizedActivations(const model::Snapshot& snapshot, std::int64_t width)
    : common(snapshot.format(), kBlockRows, width, snapshot.rotation()) {
  if (model::has_exempt_layers(snapshot)) exempt = ops::Activations(quant::Format::bf16, kBlockRows, width);
  if (snapshot.lora().enabled()) plain = ops::Activations(adapter_format(snapshot), kBlockRows, width);
}

ops::Activations& Transformer::QuantizedActivations::for_layer(const ops::PackedLinear& layer) {
  return layer.format == common.format ? common : exempt;
}

ops::Activations* Transformer::QuantizedActivations::beside(const ops::PackedLinear& layer,
                                                            const model::MatrixAdapter& adapter) {
  return adapter.empty() || model::reads_adapters_inputs(layer) ? nullptr : &plain;
}

Transformer::Workspace::Workspace(const model::Snapshot& snapshot, std::int64_t max_rows)
    : normed(snapshot, snapshot.config().hidden_size),
      attended(snapshot, snapshot.config().q_size()),
      gated(snapshot, snapshot.config().intermediate_size),
      final_normed(snapshot.lm_head().format, kLogitRows, snapshot.config().hidden_size),
      qkv(DType::f32, {kBlockRows, snapshot.config().q_size() + 2 * snapshot.config().kv_size()}),
      context(DType::f32, {kBlockRows, snapshot.config().q_size()}),
      halves(DType::f32, {kBlockRows, 2 * snapshot.config().intermediate_size}),
      sampled_x(DType::f32, {kLogitRows, snapshot.config().hidden_size}),
      summaries(kLogitRows) {
  if (!has_plain_branches(snapshot.config())) branch = Buffer(DType::f32, {kBlockRows, snapshot.config().hidden_size});
  if (snapshot.config().attention_gate) delta = std::make_unique<DeltaScratch>(snapshot);
  if (snapshot.config().has_experts())
    experts = std::make_unique<ExpertScratch>(snapshot, std::min(max_rows, kExpertRows));
  if (!snapshot.lora().enabled()) return;
  constexpr std::size_t kMostModules = 3;  // modules of the largest matrix: q, k and v
  products = model::AdapterProducts(adapter_format(snapshot), kBlockRows, kMostModules, snapshot.lora().rank);
}

void Transformer::Workspace::make_room_for_logits(std::int64_t num_columns) {
  if (logits.empty() || logits.shape()[1] < num_columns) logits = Buffer(DType::f32, {kLogitRows, num_columns});
}

Transformer::Transformer(const model::Snapshot& snapshot, std::int64_t max_rows, std::int64_t max_positions)
    : snapshot_(snapshot),
      heads_(head_shape(snapshot.config())),
      gated_heads_(gated_heads_of(snapshot.config())),
      delta_shape_(model::delta_shape(snapshot.config())),
      ropes_(snapshot.config(), max_positions),
      adds_plain_branches_(has_plain_branches(snapshot.config())),
      x_ND_(DType::f32, {max_rows, snapshot.config().hidden_size}) {
  for (std::int64_t idx = 0; idx < snapshot.config().num_hidden_layers; ++idx) {
    const auto is_wide = [&](const ops::PackedLinear& packed) { return packed.format != snapshot.format(); };
    const model::LayerSnapshot& layer = snapshot.layer_form(idx);
    has_wide_experts_L_.push_back(std::ranges::any_of(layer.expert_gate_up, is_wide) ||
                                  std::ranges::any_of(layer.expert_down, is_wide));
  }
}

void Transformer::forward(base::Team& team, const Plan& plan, const PlanPart& part, const KvCache& kv,
                          Workspace& scratch) const {
  const std::int64_t width = snapshot_.config().hidden_size;
  auto* x_ND = x_ND_.as<float>();
  LayerOutputs* outputs = team.rank() == 0 ? scratch.outputs : nullptr;
  const auto positions =
      std::span(plan.positions_N)
          .subspan(static_cast<std::size_t>(part.rows.begin), static_cast<std::size_t>(part.rows.size()));

  const auto of_part = [](const auto& copies, Range range) {
    return std::span(copies).subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
  };
  kv.copy(team, of_part(plan.copies, part.copies));
  kv.states().copy(team, of_part(plan.starts, part.starts));
  ops::embed(team, snapshot_.embedding_VD().view(), plan.tokens_N.data(), part.rows, x_ND,
             snapshot_.config().embedding_multiplier);
  team.barrier();
  if (outputs != nullptr) outputs->note(0, positions, x_ND + part.rows.begin * width);

  for (std::int64_t layer_idx = 0; layer_idx < snapshot_.config().num_hidden_layers; ++layer_idx) {
    const bool is_sparse = snapshot_.config().is_sparse(layer_idx);
    // An expert's weights are read once per block, so larger blocks pay off.
    const std::int64_t block = is_sparse ? kExpertRows : kBlockRows;
    for (std::int64_t start = part.rows.begin; start < part.rows.end; start += block) {
      const std::int64_t end = std::min(start + block, part.rows.end);
      for (std::int64_t first = start; first < end; first += kBlockRows) {
        const LayerRows rows =
            layer_rows(team, plan, kv, layer_idx, {first, std::min(first + kBlockRows, end)}, scratch);
        if (snapshot_.config().layer_kind(layer_idx) == model::LayerKind::delta) delta_net(team, rows, scratch);
        else attention(team, rows, scratch);
        if (!is_sparse) mlp(team, rows, scratch);
      }
      if (is_sparse) mlp_of_experts(team, layer_rows(team, plan, kv, layer_idx, {start, end}, scratch), scratch);
    }
    if (outputs != nullptr) outputs->note(layer_idx + 1, positions, x_ND + part.rows.begin * width);
  }
  kv.states().copy(team, of_part(plan.leaves, part.leaves));
}

Transformer::LayerRows Transformer::layer_rows(base::Team& team, const Plan& plan, const KvCache& kv,
                                               std::int64_t layer_idx, Range rows, Workspace& scratch) const {
  const bool attends = snapshot_.config().layer_kind(layer_idx) == model::LayerKind::attention;
  const std::int64_t attention_idx = attends ? snapshot_.config().index_in_kind(layer_idx) : 0;
  return {layer_idx,
          {0, rows.size()},
          {plan.positions_N.data() + rows.begin, plan.page_tables_N.data() + rows.begin},
          kv.layer(attention_idx),
          x_ND_.as<float>() + rows.begin * snapshot_.config().hidden_size,
          team.rank() == 0 ? scratch.observed : nullptr,
          kv.query_scales(attention_idx),
          team.rank() == 0 ? scratch.queries : nullptr,
          rows.begin,
          kv.routes(),
          kv.states(),
          plan.states_N.data() + rows.begin};
}

void Transformer::linear(base::Team& team, QuantizedActivations& x, const ops::PackedLinear& weight,
                         const model::MatrixAdapter& adapter, Range rows, Workspace& scratch, bool accumulate,
                         float* y) {
  const ops::Activations& own = x.for_layer(weight);
  if (adapter.empty()) return ops::linear(team, own, weight, rows, accumulate, y);
  const ops::Activations* plain = x.beside(weight, adapter);
  // A is small, so members split the rows of x instead of A's outputs. Rounding A·x then needs no barrier.
  const Range share = team.slice(rows.size());
  model::multiply_by_a(adapter, plain != nullptr ? *plain : own, {rows.begin + share.begin, rows.begin + share.end},
                       scratch.products);
  team.barrier();
  model::multiply_adapted(weight, own, adapter, scratch.products, rows, ops::linear_share(team, weight.out), accumulate,
                          y);
}

void Transformer::enter(base::Team& team, const base::Buffer& gain, const LayerRows& in, ops::Activations& to,
                        ops::Activations* beside) const {
  if (!gain.empty()) {
    ops::rms_norm(team, in.x_ND, gain.as<float>(), snapshot_.config().rms_norm_eps, in.rows, to, beside);
  } else {
    ops::quantize(team, in.x_ND, in.rows, to);
    if (beside != nullptr) ops::quantize(team, in.x_ND, in.rows, *beside);
  }
}

void Transformer::leave(base::Team& team, QuantizedActivations& x, const ops::PackedLinear& weight,
                        const model::MatrixAdapter& adapter, const base::Buffer& gain, const LayerRows& in,
                        Workspace& scratch) const {
  const model::ModelConfig& config = snapshot_.config();
  if (adds_plain_branches_) {
    linear(team, x, weight, adapter, in.rows, scratch, true, in.x_ND);
  } else {
    auto* branch = scratch.branch.as<float>();
    linear(team, x, weight, adapter, in.rows, scratch, false, branch);
    team.barrier();
    ops::add_branch(team,
                    {config.hidden_size, gain.empty() ? nullptr : gain.as<float>(), config.rms_norm_eps,
                     config.residual_multiplier},
                    branch, in.rows, in.x_ND);
  }
  team.barrier();
}

void Transformer::attention(base::Team& team, const LayerRows& in, Workspace& scratch) const {
  const model::ModelConfig& config = snapshot_.config();
  const model::LayerSnapshot& layer = snapshot_.layer(in.layer_idx);
  const ops::HeadNorms norms{config.qk_norm ? layer.q_norm_E.as<float>() : nullptr,
                             config.qk_norm ? layer.k_norm_E.as<float>() : nullptr, config.rms_norm_eps,
                             config.qk_norm_whole};
  const base::View rope = ropes_.of(config.rope(in.layer_idx));
  auto* qkv = scratch.qkv.as<float>();
  auto* context = scratch.context.as<float>();
  ops::Activations& before = scratch.normed.for_layer(layer.qkv);
  ops::Activations& attended = scratch.attended.for_layer(layer.o);

  enter(team, layer.input_norm_D, in, before, scratch.normed.beside(layer.qkv, layer.adapters.qkv));
  team.barrier();
  if (in.observed != nullptr && !layer.input_norm_D.empty())
    ObservedInputs::note(before, in.rows, in.observed->amax_L[static_cast<std::size_t>(in.layer_idx)].qkv);
  auto* projections = config.attention_gate ? scratch.delta->projections.as<float>() : qkv;
  linear(team, scratch.normed, layer.qkv, layer.adapters.qkv, in.rows, scratch, false, projections);
  team.barrier();
  if (config.attention_gate) {
    ops::split_gates(team, gated_heads_, in.rows, projections, qkv, scratch.delta->gates.as<float>());
    team.barrier();
  }
  ops::rope_and_store(team, heads_, norms, rope, in.where, in.rows, in.pages, qkv);
  team.barrier();
  if (in.queries != nullptr) in.queries->note(config.index_in_kind(in.layer_idx), in.first_row, in.rows, qkv);
  ops::KvPages pages = in.pages;
  if (in.query_scales.of_queries != nullptr) {
    ops::quantize_queries(team, heads_, in.rows, in.query_scales.of_queries, qkv);
    pages.key_scales = in.query_scales.of_scores;
    team.barrier();
  }
  ops::HeadShape heads = heads_;
  heads.window = config.window(in.layer_idx);
  ops::paged_attention(team, heads, in.where, in.rows, pages, qkv, context);
  team.barrier();
  if (config.attention_gate) {
    ops::apply_gates(team, gated_heads_, in.rows, scratch.delta->gates.as<float>(), context);
    team.barrier();
  }
  ops::quantize(team, context, in.rows, attended);
  if (ops::Activations* plain = scratch.attended.beside(layer.o, layer.adapters.o); plain != nullptr)
    ops::quantize(team, context, in.rows, *plain);
  team.barrier();
  leave(team, scratch.attended, layer.o, layer.adapters.o, layer.attention_norm_D, in, scratch);
}

void Transformer::mlp(base::Team& team, const LayerRows& in, Workspace& scratch) const {
  const model::LayerSnapshot& layer = snapshot_.layer(in.layer_idx);
  auto* halves = scratch.halves.as<float>();
  ops::Activations& after = scratch.normed.for_layer(layer.gate_up);
  ops::Activations& gated = scratch.gated.for_layer(layer.down);

  enter(team, layer.post_norm_D, in, after, scratch.normed.beside(layer.gate_up, layer.adapters.gate_up));
  team.barrier();
  if (in.observed != nullptr && !layer.post_norm_D.empty())
    ObservedInputs::note(after, in.rows, in.observed->amax_L[static_cast<std::size_t>(in.layer_idx)].gate_up);
  linear(team, scratch.normed, layer.gate_up, layer.adapters.gate_up, in.rows, scratch, false, halves);
  team.barrier();
  ops::swiglu(team, snapshot_.config().gate, halves, in.rows, gated,
              scratch.gated.beside(layer.down, layer.adapters.down));
  team.barrier();
  leave(team, scratch.gated, layer.down, layer.adapters.down, layer.mlp_norm_D, in, scratch);
}

void Transformer::choose_rows(base::Team& team, std::span<const std::int32_t> wanted, Workspace& scratch) const {
  const model::ModelConfig& config = snapshot_.config();
  const Range rows{0, static_cast<std::int64_t>(wanted.size())};
  auto* sampled_x = scratch.sampled_x.as<float>();

  team.barrier();  // waits until no member reads the previous rows' logits
  const Range share = team.slice(rows.end);
  for (std::int64_t i = share.begin; i < share.end; ++i) {
    const float* x = x_ND_.as<float>() + wanted[static_cast<std::size_t>(i)] * config.hidden_size;
    std::copy_n(x, config.hidden_size, sampled_x + i * config.hidden_size);
  }
  team.barrier();
  ops::rms_norm(team, sampled_x, snapshot_.final_norm_D().as<float>(), config.rms_norm_eps, rows, scratch.final_normed);
  team.barrier();
}

const float* Transformer::logits(base::Team& team, std::int64_t num_rows, Range tokens, Workspace& scratch) const {
  auto* logits = scratch.logits.as<float>();
  team.barrier();  // waits until no member reads the previous logits
  ops::linear_columns(team, scratch.final_normed, snapshot_.lm_head(), {0, num_rows}, tokens, logits);
  team.barrier();
  return logits;
}

void Transformer::logits_of_row(std::int64_t row_idx, Range tokens, Workspace& scratch, float* to) const {
  base::Team alone = base::Team::solo();
  ops::linear_columns(alone, scratch.final_normed, snapshot_.lm_head(), {row_idx, row_idx + 1}, tokens, to);
}

}  // namespace qrl::decoder
