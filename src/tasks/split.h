// Owns the fixed split of generated tasks into training and held-out tasks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace qrl::tasks {

/// Names the two sides of the split. A hash of the task's content decides, so training and held-out tasks are disjoint
/// for all seeds, sizes and ranges. One task in four is held out.
enum class Split : std::uint8_t { train, held_out };
Split split_of(std::span<const std::int64_t> values);
Split split_of(std::string_view text);

}  // namespace qrl::tasks
