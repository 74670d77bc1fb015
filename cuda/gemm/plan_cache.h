// Owns which plan of a library serves a GEMM of a number of rows.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>

#include "cuda/runtime/layout.h"

namespace qrl::cuda {

/// Up to kExactPlanRows rows, a plan is asked for the exact number, which is few in decode ticks (padded_rows). For
/// more rows it is asked for a multiple of kPlanRows, so that few plans serve all lengths of prompts and micro-batches.
inline constexpr std::int64_t kExactPlanRows = 128, kPlanRows = 64;
inline std::int64_t planned_rows(std::int64_t num_rows) {
  return num_rows <= kExactPlanRows ? num_rows : round_up(num_rows, kPlanRows);
}

/// Identifies a GEMM except for its number of rows.
struct PlannedShape {
  std::int64_t outputs = 0, width = 0, x_stride = 0, y_stride = 0;
  bool y_is_f32 = false;
  friend auto operator<=>(const PlannedShape&, const PlannedShape&) = default;
};

/// Keeps plans of a library.
template <class Plan>
class PlanCache {
 public:
  /// Returns the plan for num_rows rows. Makes a plan with make(rows), for planned_rows(num_rows). If fits(plan,
  /// num_rows) says that the library cannot run this plan with the exact rows, makes one for them alone. Asks `fits`
  /// once for each number of rows.
  template <class Make, class Fits>
  Plan& find(const PlannedShape& shape, std::int64_t num_rows, const Make& make, const Fits& fits) {
    const std::int64_t rows = planned_rows(num_rows);
    Entry& shared = entry(shape, rows, make);
    if (rows == num_rows) return shared.plan;
    const std::uint64_t bit = std::uint64_t{1} << (rows - num_rows);
    if ((shared.asked & bit) == 0) {
      shared.asked |= bit;
      if (fits(shared.plan, num_rows)) shared.fitting |= bit;
    }
    return (shared.fitting & bit) != 0 ? shared.plan : entry(shape, num_rows, make).plan;
  }

  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  template <class Visit>
  void visit(const Visit& visit) {
    for (auto& [key, entry] : entries_) visit(entry.plan);
  }

 private:
  struct Entry {
    Plan plan;
    std::uint64_t asked = 0, fitting = 0;  // bit i: rows that are i fewer than the plan's
  };
  template <class Make>
  Entry& entry(const PlannedShape& shape, std::int64_t rows, const Make& make) {
    const auto [found, is_new] = entries_.try_emplace({shape, rows});
    if (is_new) found->second.plan = make(rows);
    return found->second;
  }

  std::map<std::pair<PlannedShape, std::int64_t>, Entry> entries_;
};

}  // namespace qrl::cuda
