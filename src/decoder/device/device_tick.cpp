#include "decoder/device/device_tick.h"

#include <algorithm>

namespace qrl::decoder {

cuda::Tick DeviceTick::fill(const Plan& plan) {
  static_assert(pending_token(3) == cuda::pending_token(3));  // a plan's tokens are passed unchanged
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

}  // namespace qrl::decoder
