// Owns range checks and arithmetic on block counts.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/threads.h"

namespace qrl::ops {

constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t divisor) { return (count + divisor - 1) / divisor; }
constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return ceil_div(count, multiple) * multiple;
}

inline void check_range(base::Range rows, std::int64_t limit, const char* where) {
  QRL_INVARIANT(0 <= rows.begin && rows.begin <= rows.end && rows.end <= limit, where,
                "rows within [0, " + std::to_string(limit) + ")",
                "[" + std::to_string(rows.begin) + ", " + std::to_string(rows.end) + ")");
}

}  // namespace qrl::ops
