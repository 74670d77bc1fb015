#include <array>
#include <span>

#include "decoder/cpu/transformer.h"

namespace qrl::decoder {

using base::DType;
using base::Range;

namespace {

/// If a team has at most this number of rows, one member routes all of them, which saves barriers.
constexpr std::int64_t kRowsRoutedAlone = 4;

/// Chooses the experts of this member's share of the rows.
void choose(const base::Team& team, const model::ModelConfig& config, const ops::Activations& x,
            const ops::PackedLinear& weight, Range rows, float* logits_NM, ops::ExpertRows& routes) {
  const ops::Router router = model::router_of(config);
  const Range mine = team.slice(rows.size());
  if (mine.size() == 0) return;
  base::Team alone = base::Team::solo();
  ops::linear(alone, x, weight, mine, false, logits_NM);
  std::array<std::uint8_t, model::kMaxExperts> own{};
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    // Non-finite rows get NaN gates and therefore NaN logits, which the sampler refuses.
    (void)ops::choose_experts(router, logits_NM + row * router.num_experts, nullptr, own.data(),
                              routes.experts.data() + row * router.per_token,
                              routes.gates.data() + row * router.per_token);
  }
}

}  // namespace

Transformer::ExpertScratch::ExpertScratch(const model::Snapshot& snapshot, std::int64_t num_rows) {
  const model::ModelConfig& config = snapshot.config();
  const std::int64_t width = config.hidden_size, inner = config.moe_intermediate_size,
                     num_pairs = num_rows * config.num_experts_per_tok;
  const quant::Format common = snapshot.format(), wide = model::adapter_format(snapshot);
  normed = ops::Activations(common, num_rows, width, snapshot.rotation());
  sorted = ops::Activations(common, num_pairs, width, snapshot.rotation());
  gated = ops::Activations(common, num_pairs, inner, snapshot.rotation());
  if (common != wide) wide_normed = ops::Activations(wide, num_rows, width);
  if (model::has_exempt_layers(snapshot)) {
    wide_sorted = ops::Activations(wide, num_pairs, width);
    wide_gated = ops::Activations(wide, num_pairs, inner);
  }
  logits = base::Buffer(DType::f32, {num_rows, config.num_experts});
  halves = base::Buffer(DType::f32, {num_pairs, 2 * inner});
  z = base::Buffer(DType::f32, {num_pairs, width});
}

void Transformer::route(base::Team& team, const LayerRows& in, ExpertScratch& own) const {
  const model::ModelConfig& config = snapshot_.config();
  const model::LayerSnapshot& layer = snapshot_.layer(in.layer_idx);
  ops::ExpertRows& routes = own.routes;
  const bool reads_common = layer.router.format == own.normed.format;
  if (team.rank() == 0) {
    const auto num_pairs = static_cast<std::size_t>(in.rows.size() * config.num_experts_per_tok);
    routes.experts.resize(num_pairs);
    routes.gates.resize(num_pairs);
  }
  ops::rms_norm(team, in.x_ND, layer.post_norm_D.as<float>(), config.rms_norm_eps, in.rows, own.normed,
                own.wide_normed.max_rows() == 0 ? nullptr : &own.wide_normed);
  team.barrier();
  if (in.observed != nullptr)
    ObservedInputs::note(own.normed, in.rows, in.observed->amax_L[static_cast<std::size_t>(in.layer_idx)].router);
  choose(team, config, reads_common ? own.normed : own.wide_normed, layer.router, in.rows, own.logits.as<float>(),
         routes);
  team.barrier();
  if (team.rank() == 0) {
    ops::sort_rows(model::router_of(config), routes);
    for (std::size_t expert = 0; expert + 1 < routes.starts.size(); ++expert)
      own.num_read += routes.starts[expert] < routes.starts[expert + 1] ? 1 : 0;
  }
  team.barrier();
  const Range share = team.slice(in.rows.size());
  for (std::int64_t row = share.begin; row < share.end; ++row)
    in.routes.store(in.where.page_tables[row], in.where.positions[row], in.layer_idx,
                    routes.experts.data() + row * config.num_experts_per_tok);
  ops::gather_rows(team, own.normed, routes.row_of, own.sorted);
  if (has_wide_experts_L_[static_cast<std::size_t>(in.layer_idx)])
    ops::gather_rows(team, own.wide_normed, routes.row_of, own.wide_sorted);
  team.barrier();
}

void Transformer::mlp_of_experts(base::Team& team, const LayerRows& in, Workspace& scratch) const {
  const model::LayerSnapshot& layer = snapshot_.layer(in.layer_idx);
  ExpertScratch& own = *scratch.experts;
  if (in.rows.size() > kRowsRoutedAlone) {
    route(team, in, own);
  } else {
    if (team.rank() == 0) {
      base::Team alone = base::Team::solo();
      route(alone, in, own);
    }
    team.barrier();
  }
  const bool has_wide = has_wide_experts_L_[static_cast<std::size_t>(in.layer_idx)];
  const std::vector<std::int32_t>& starts = own.routes.starts;
  ops::expert_linear(team, own.sorted, has_wide ? &own.wide_sorted : nullptr, layer.expert_gate_up, starts,
                     own.halves.as<float>());
  team.barrier();
  ops::Activations* wide_gated = has_wide ? &own.wide_gated : nullptr;
  ops::swiglu(team, snapshot_.config().gate, own.halves.as<float>(), {0, starts.back()}, own.gated, wide_gated);
  team.barrier();
  ops::expert_linear(team, own.gated, wide_gated, layer.expert_down, starts, own.z.as<float>());
  team.barrier();
  ops::add_experts(team, own.z.as<float>(), own.routes, in.rows, snapshot_.config().hidden_size, in.x_ND);
  team.barrier();
}

}  // namespace qrl::decoder
