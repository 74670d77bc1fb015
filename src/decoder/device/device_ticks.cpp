#include "decoder/device/device_ticks.h"

#include <algorithm>

namespace qrl::decoder {

cuda::Tick DeviceTick::fill(const Plan& plan) {
  static_assert(pending_token(3) == cuda::pending_token(3));  // a plan's placeholders are passed unchanged
  first_page_N_.clear();
  page_ids_.clear();
  copies_.clear();
  // Consecutive rows of a sequence share a page table, whose length follows from their largest position.
  const std::size_t num_rows = plan.tokens_N.size();
  for (std::size_t first = 0; first < num_rows;) {
    std::size_t end = first + 1;
    while (end < num_rows && plan.page_tables_N[end] == plan.page_tables_N[first]) ++end;
    const std::int32_t last = *std::max_element(plan.positions_N.begin() + static_cast<std::ptrdiff_t>(first),
                                                plan.positions_N.begin() + static_cast<std::ptrdiff_t>(end));
    first_page_N_.insert(first_page_N_.end(), end - first, static_cast<std::int32_t>(page_ids_.size()));
    const PageId* table = plan.page_tables_N[first];
    page_ids_.insert(page_ids_.end(), table, table + last / page_size_ + 1);
    first = end;
  }
  for (const PageCopy& copy : plan.copies)
    copies_.push_back({copy.from, copy.to, static_cast<std::int32_t>(copy.num_slots)});
  return {plan.tokens_N, plan.positions_N, first_page_N_, page_ids_, copies_};
}

PackedTicks::PackedTicks(const model::PackedSequences& rows, const TickLimits& limits) {
  const std::size_t num_sequences = rows.sequence_starts.size() - 1;
  std::vector<std::int32_t> table, of_prefix;
  std::int64_t prefix_rows = 0;
  for (std::size_t s = 0; s < num_sequences; ++s) {
    const std::int64_t begin = rows.sequence_starts[s], end = rows.sequence_starts[s + 1];
    const bool continues = !rows.continues_prefix.empty() && rows.continues_prefix[s] != 0;
    const std::int64_t shared = continues ? prefix_rows : 0, total = shared + end - begin;
    const std::int64_t whole_pages = shared / limits.page_size;
    table.assign(of_prefix.begin(), of_prefix.begin() + whole_pages);
    while (static_cast<std::int64_t>(table.size()) * limits.page_size < total)
      table.push_back(static_cast<std::int32_t>(num_pages_++));

    for (std::int64_t row = begin; row < end;) {
      const bool is_full =
          !arrays_.empty() && (static_cast<std::int64_t>(arrays_.back().positions_N.size()) == limits.max_rows ||
                               arrays_.back().num_sequences == limits.max_sequences);
      if (arrays_.empty() || is_full) arrays_.push_back({static_cast<std::size_t>(row), 0, {}, {}, {}, {}});
      Arrays& tick = arrays_.back();
      const std::int64_t room = limits.max_rows - static_cast<std::int64_t>(tick.positions_N.size());
      const std::int64_t count = std::min(end - row, room);
      const auto first_page = static_cast<std::int32_t>(tick.page_ids.size());
      for (std::int64_t i = 0; i < count; ++i) {
        tick.positions_N.push_back(static_cast<std::int32_t>(shared + row - begin + i));
        tick.first_page_N.push_back(first_page);
      }
      const std::int64_t num_read = tick.positions_N.back() / limits.page_size + 1;
      tick.page_ids.insert(tick.page_ids.end(), table.begin(), table.begin() + num_read);
      const auto left_over = static_cast<std::int32_t>(shared % limits.page_size);
      if (row == begin && left_over > 0) {
        const auto at = static_cast<std::size_t>(whole_pages);
        tick.copies.push_back({of_prefix[at], table[at], left_over});
      }
      ++tick.num_sequences;
      row += count;
    }
    if (continues) continue;
    prefix_rows = end - begin;
    of_prefix = table;
  }
  for (const Arrays& tick : arrays_) {
    ticks_.push_back({rows.tokens_N.subspan(tick.first_row, tick.positions_N.size()), tick.positions_N,
                      tick.first_page_N, tick.page_ids, tick.copies});
  }
}

}  // namespace qrl::decoder
