#include "decoder/plan.h"

#include <algorithm>

namespace qrl::decoder {

namespace {

/// Largest ratio of a thread's cost to its fair share. Above it, one team of all threads is faster, despite its
/// barriers.
constexpr double kMaxImbalance = 1.15;

/// Cost of a multiply-add in attention (including softmax), relative to one in a low-bit matmul.
constexpr double kAttentionSlowdown = 4;

}  // namespace

Plan::Plan(const model::ModelConfig& config) {
  const auto qkv_size = static_cast<double>(config.q_outputs() + 2 * config.kv_size());
  const auto width = static_cast<double>(config.hidden_size);
  const auto q_size = static_cast<double>(config.q_size());
  double row_products = 0;  // multiply-adds of a row in an average layer
  const auto heads = static_cast<double>(config.linear_num_value_heads),
             delta_size = static_cast<double>(config.delta_size());
  const double attention_row = width * (qkv_size + q_size);
  const double delta_row = width * (static_cast<double>(config.delta_channels()) + 2 * delta_size + 2 * heads) +
                           kAttentionSlowdown * 3 * delta_size * static_cast<double>(config.linear_key_head_dim);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool is_sparse = config.is_sparse(layer);
    const auto inner = static_cast<double>(is_sparse ? config.num_experts_per_tok * config.moe_intermediate_size
                                                     : config.intermediate_size);
    const double router = is_sparse ? static_cast<double>(config.num_experts) : 0;
    row_products += config.layer_kind(layer) == model::LayerKind::delta ? delta_row : attention_row;
    row_products += width * (router + 3 * inner);
  }
  row_products /= static_cast<double>(config.num_attention_layers());  // one layer with attention, and its neighbors
  if (config.has_experts())
    min_rows_per_thread_ *= (config.num_experts + config.num_experts_per_tok - 1) / config.num_experts_per_tok;
  position_cost_ = kAttentionSlowdown * 2 * q_size / row_products;
}

double Plan::cost(const Sequence& sequence) const {
  const auto num_rows = static_cast<double>(sequence.num_rows);
  const double mean_position = static_cast<double>(sequence.num_cached) + num_rows / 2;
  return num_rows * (1 + position_cost_ * mean_position);
}

void Plan::build(std::span<Sequence* const> chosen, int num_threads, bool weights_stay_cached) {
  tokens_N.clear();
  positions_N.clear();
  page_tables_N.clear();
  states_N.clear();
  copies.clear();
  starts.clear();
  leaves.clear();
  sample_rows.clear();
  sampled_sequences.clear();
  parts.clear();
  num_decode_rows = 0;

  double total_cost = 0;
  for (const Sequence* sequence : chosen) total_cost += cost(*sequence);
  const double fair_cost = total_cost / num_threads;

  const auto end_of_part = [&] {
    const PlanPart last = parts.empty() ? PlanPart{} : parts.back();
    parts.push_back({{last.rows.end, num_rows()},
                     {last.samples.end, static_cast<std::int64_t>(sample_rows.size())},
                     {last.copies.end, static_cast<std::int64_t>(copies.size())},
                     {last.starts.end, static_cast<std::int64_t>(starts.size())},
                     {last.leaves.end, static_cast<std::int64_t>(leaves.size())}});
  };
  double cost_so_far = 0, part_cost = 0, largest_part_cost = 0;
  for (Sequence* sequence : chosen) {
    // Ends the part before this sequence if over half of the sequence's cost would exceed the part's fair share.
    const double sequence_cost = cost(*sequence);
    if (part_cost > 0 && static_cast<double>(parts.size() + 1) * fair_cost < cost_so_far + sequence_cost / 2) {
      end_of_part();
      part_cost = 0;
    }
    cost_so_far += sequence_cost;
    part_cost += sequence_cost;
    largest_part_cost = std::max(largest_part_cost, part_cost);

    const bool is_sampled = sequence->samples_next();
    if (is_sampled && sequence->num_rows == 1 && sequence->num_cached >= sequence->num_prompt_tokens())
      ++num_decode_rows;
    for (std::int64_t i = 0; i < sequence->num_rows; ++i) {
      const std::int64_t position = sequence->num_cached + i;
      tokens_N.push_back(sequence->token(position));
      positions_N.push_back(static_cast<std::int32_t>(position));
      page_tables_N.push_back(sequence->pages.data());
      states_N.push_back(sequence->state);
    }
    if (sequence->copy.num_slots > 0) copies.push_back(sequence->copy);
    if (sequence->starts_from >= 0) starts.push_back({sequence->starts_from, sequence->state});
    if (sequence->leaves_to >= 0) leaves.push_back({sequence->state, sequence->leaves_to});
    if (is_sampled) {
      sample_rows.push_back(static_cast<std::int32_t>(num_rows() - 1));
      sampled_sequences.push_back(sequence);
    }
  }
  end_of_part();

  each_alone = weights_stay_cached ||
               (num_rows() >= min_rows_per_thread_ * num_threads && largest_part_cost <= kMaxImbalance * fair_cost);
  if (!each_alone) {
    parts.clear();
    end_of_part();
  }
}

}  // namespace qrl::decoder
