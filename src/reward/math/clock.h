// Owns times of day: 7:30 p.m., 19:30, 5 pm. Knows nothing of other quantities.
#pragma once

#include <optional>

#include "reward/math/tree.h"

namespace qrl::reward::math {

struct Clock {
  enum class Half : unsigned char { unknown, morning, evening };
  int hour = 0, minute = 0, second = 0;
  Half half = Half::unknown;
  bool marked = false;  ///< with a.m., p.m., noon or the like: surely a time
};

/// The time that a node may be: h:mm or h:mm:ss, or these or an hour with a.m., p.m., noon, midnight or o'clock behind
/// it. A ratio such as 12:30 may be one, 3:4 is none.
std::optional<Clock> clock_of(const Tree& tree, NodeIdx idx);

/// Whether both may be the same time: 7:30 is 7:30 p.m. or 7:30 a.m., and 19:30 only the former.
bool same_time(const Clock& a, const Clock& b) noexcept;

/// Whether a ratio that looks like a time can be nothing else: 12:30 as a ratio would be 2:5.
bool is_surely_time(const Clock& clock) noexcept;

}  // namespace qrl::reward::math
