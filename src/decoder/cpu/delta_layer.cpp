#include <algorithm>
#include <vector>

#include "decoder/cpu/transformer.h"

namespace qrl::decoder {

using base::Range;

namespace {

/// Finds the runs of adjacent tokens of one sequence.
void find_runs(Range rows, const std::int32_t* positions, const StateSlot* slots, const DeltaStates& states,
               std::int64_t delta_idx, std::vector<ops::DeltaRun>& runs) {
  runs.clear();
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    if (row > rows.begin && slots[row] == slots[row - 1]) ++runs.back().rows.end;
    else runs.push_back({{row, row + 1}, positions[row], states.state(slots[row], delta_idx)});
  }
}

}  // namespace

ops::GatedHeads gated_heads_of(const model::ModelConfig& config) {
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim};
}

Transformer::DeltaScratch::DeltaScratch(const model::Snapshot& snapshot)
    : mixed(snapshot, snapshot.config().delta_size()) {
  const model::ModelConfig& config = snapshot.config();
  const std::int64_t row = std::max(gated_heads_of(config).row_width(), model::delta_shape(config).row_width());
  projections = base::Buffer(base::DType::f32, {kBlockRows, row});
  gates = base::Buffer(base::DType::f32, {kBlockRows, config.q_size()});
  gates_in = base::Buffer(base::DType::f32, {kBlockRows, 2 * config.linear_num_value_heads});
  out = base::Buffer(base::DType::f32, {kBlockRows, config.delta_size()});
}

void Transformer::delta_net(base::Team& team, const LayerRows& in, Workspace& scratch) const {
  const model::LayerSnapshot& layer = snapshot_.layer(in.layer_idx);
  ops::Activations& before = scratch.normed.for_layer(layer.qkvz);
  ops::Activations& wide = scratch.normed.for_layer(layer.ba);
  ops::Activations* plain = scratch.normed.beside(layer.qkvz, layer.adapters.qkvz);
  DeltaScratch& own = *scratch.delta;
  ops::Activations& mixed = own.mixed.for_layer(layer.o);
  auto* projections = own.projections.as<float>();
  auto* gates = own.gates_in.as<float>();
  auto* out = own.out.as<float>();

  if (team.rank() == 0)
    find_runs(in.rows, in.where.positions, in.state_slots, in.states, snapshot_.config().index_in_kind(in.layer_idx),
              own.runs);
  // One pass gives two forms of the rows; only adapters beside quantized matrices need a third.
  ops::Activations* own_wide = &wide != &before ? &wide : nullptr;
  enter(team, layer.input_norm_D, in, before, plain != nullptr ? plain : own_wide);
  if (plain != nullptr && own_wide != nullptr) enter(team, layer.input_norm_D, in, wide, nullptr);
  team.barrier();
  if (in.observed != nullptr && !layer.input_norm_D.empty())
    ObservedInputs::note(before, in.rows, in.observed->amax_L[static_cast<std::size_t>(in.layer_idx)].qkvz);
  linear(team, scratch.normed, layer.qkvz, layer.adapters.qkvz, in.rows, scratch, false, projections);
  if (!layer.adapters.qkvz.empty() && !layer.adapters.ba.empty()) team.barrier();  // both use scratch.products
  linear(team, scratch.normed, layer.ba, layer.adapters.ba, in.rows, scratch, false, gates);
  team.barrier();
  ops::delta_net(team, delta_shape_, model::delta_weights(layer), own.runs, projections, gates, out);
  team.barrier();
  ops::quantize(team, out, in.rows, mixed);
  if (ops::Activations* beside = own.mixed.beside(layer.o, layer.adapters.o); beside != nullptr)
    ops::quantize(team, out, in.rows, *beside);
  team.barrier();
  leave(team, own.mixed, layer.o, layer.adapters.o, layer.attention_norm_D, in, scratch);
}

}  // namespace qrl::decoder
