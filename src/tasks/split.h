// Owns the fixed split between generated tasks for training and those held out.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace qrl::tasks {

/// Which side of the fixed split a task belongs to: decided by a hash of what makes the task alone, so that training
/// and held-out tasks are disjoint whatever the seeds, sizes and ranges. One task in four is held out.
enum class Split : std::uint8_t { train, held_out };
Split split_of(std::span<const std::int64_t> values);
Split split_of(std::string_view text);

}  // namespace qrl::tasks
