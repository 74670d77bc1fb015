#include "cuda/engine/tick_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

template <class Values>
std::int64_t size_of(const Values& values) {
  return static_cast<std::int64_t>(values.size());
}

bool samples_all_rows(const Tick& tick, const SampleRows& samples) {
  return samples.rows.size() == tick.tokens_N.size();
}

}  // namespace

TickMemory::TickMemory(const EngineOptions& options)
    : attention_{options.model.num_attention_heads, options.model.num_key_value_heads, options.model.head_dim},
      max_positions_(options.max_positions),
      page_size_(options.page_size),
      max_rows_(padded_rows(options.max_rows)),
      max_partials_(num_attention_partials(options.model.num_attention_heads, options.model.head_dim, options.max_rows,
                                           options.max_positions)),
      planner_(attention_, max_partials_) {
  // Allocates for the largest tick, so that addresses never change.
  const AttentionRoom room = attention_room(attention_, max_rows_, max_positions_, max_partials_);
  const std::int64_t page_ids = options.max_sequences * ceil_div(max_positions_, page_size_);
  const TickLayout at =
      tick_layout({max_rows_, max_rows_, room.tiles, room.tile_rows, max_rows_, page_ids, options.max_sequences});
  for (Memory& host : host_) host = Memory(static_cast<std::size_t>(at.num_bytes), Memory::Place::host);
  device_ = Memory(static_cast<std::size_t>(at.num_bytes));
}

TickCounts TickMemory::counts_of_tick(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan) const {
  const std::int64_t num_rows = size_of(tick.tokens_N), num_page_ids = size_of(tick.page_ids),
                     num_copies = size_of(tick.copies);
  if (!samples_all_rows(tick, samples)) {
    return {num_rows,           size_of(samples.rows),    size_of(plan.tiles),
            size_of(plan.rows), size_of(plan.split_rows), num_page_ids,
            num_copies};
  }
  const std::int64_t padded = padded_rows(num_rows);
  const AttentionRoom room = attention_room(attention_, padded, max_positions_, max_partials_);
  return {padded, padded, room.tiles, room.tile_rows, padded, num_page_ids, num_copies};
}

void TickMemory::fill(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan, const TickLayout& at,
                      std::int64_t num_rows) const {
  auto* const host = host_[turn_].as<std::byte>();
  const auto put = [host](std::int64_t offset, const auto& values) {
    if (!values.empty()) std::memcpy(host + offset, values.data(), values.size() * sizeof(values[0]));
  };
  const auto ints = [host](std::int64_t offset) { return reinterpret_cast<std::int32_t*>(host + offset); };
  const AttentionCounts counts = counts_of(plan);
  static_assert(sizeof(SampleSettings) == 2 * sizeof(std::int32_t) && sizeof(counts) == 3 * sizeof(std::int32_t) &&
                sizeof(SlotCopy) == 3 * sizeof(std::int32_t) && sizeof(AttentionTile) == 5 * sizeof(std::int32_t) &&
                sizeof(RowCuts) == 3 * sizeof(std::int32_t));
  put(at.uniforms, samples.uniforms);
  auto* const settings = reinterpret_cast<SampleSettings*>(host + at.sample_settings);
  std::ranges::transform(samples.temperatures, settings, settings_of);
  auto* const cuts = reinterpret_cast<RowCuts*>(host + at.cuts);
  if (samples.cuts.empty()) std::fill_n(cuts, samples.rows.size(), RowCuts{});
  else put(at.cuts, samples.cuts);
  put(at.attention_counts, std::span(&counts, 1));
  put(at.tokens, tick.tokens_N);
  put(at.positions, tick.positions_N);
  put(at.first_pages, tick.first_page_N);
  put(at.partials, plan.partials_N);
  put(at.sample_rows, samples.rows);
  put(at.tiles, plan.tiles);
  put(at.tile_rows, plan.rows);
  put(at.split_rows, plan.split_rows);
  put(at.page_ids, tick.page_ids);
  put(at.copies, tick.copies);
  // Fills the padding rows; their tokens and uniform numbers do not matter.
  const std::int64_t there = size_of(tick.tokens_N), more = num_rows - there;
  std::fill_n(ints(at.tokens) + there, more, 0);
  std::fill_n(ints(at.positions) + there, more, -1);
  if (more == 0) return;
  std::iota(ints(at.sample_rows) + there, ints(at.sample_rows) + num_rows, static_cast<std::int32_t>(there));
  std::fill_n(reinterpret_cast<double*>(ints(at.uniforms)) + there, more, 0.0);
  std::fill_n(settings + there, more, SampleSettings{});
  std::fill_n(cuts + there, more, RowCuts{});
}

TickArrays TickMemory::send(const Tick& tick, const SampleRows& samples, const Stream& stream) {
  const AttentionPlan& plan = planner_.plan({tick.positions_N, tick.first_page_N, tick.page_ids, page_size_});
  const TickCounts counts = counts_of_tick(tick, samples, plan);
  const TickLayout at = tick_layout(counts);
  turn_ = 1 - turn_;
  fill(tick, samples, plan, at, counts.rows);
  copy_to_device(device_.data(), host_[turn_].data(), static_cast<std::size_t>(at.num_bytes), stream);

  const AttentionCounts there = counts_of(plan);
  TickShape shape{counts.rows, counts.samples, there.num_small, there.num_large, there.num_split, plan.joins_segments};
  shape.cuts = std::ranges::any_of(samples.cuts, &RowCuts::cuts);
  if (samples_all_rows(tick, samples)) {
    const std::int64_t blocks = attention_room(attention_, counts.rows, max_positions_, max_partials_).tile_blocks;
    // Returns the number of blocks for `count` tiles: `count` rounded up to a power of two, but at least one block per
    // row and at most `blocks`. Few shapes then occur, and few blocks are idle.
    const auto blocks_of = [&](std::int64_t count) {
      const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
      return count == 0 ? 0 : std::min(blocks, std::max(counts.rows, power));
    };
    shape.small_blocks = blocks_of(there.num_small);
    shape.large_blocks = blocks_of(there.num_large);
    shape.split_blocks = there.num_split == 0 ? 0 : counts.rows;
  }
  const auto* bytes = device_.as<const std::byte>();
  const auto ints = [bytes](std::int64_t offset) { return reinterpret_cast<const std::int32_t*>(bytes + offset); };
  return {shape,
          ints(at.tokens),
          {ints(at.positions), ints(at.first_pages), ints(at.page_ids)},
          {reinterpret_cast<const AttentionCounts*>(bytes + at.attention_counts),
           reinterpret_cast<const AttentionTile*>(bytes + at.tiles), ints(at.tile_rows), ints(at.partials),
           ints(at.split_rows), shape.small_blocks, shape.large_blocks, shape.split_blocks, shape.joins_segments},
          ints(at.sample_rows),
          reinterpret_cast<const double*>(bytes + at.uniforms),
          reinterpret_cast<const SampleSettings*>(bytes + at.sample_settings),
          reinterpret_cast<const RowCuts*>(bytes + at.cuts),
          ints(at.copies)};
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
