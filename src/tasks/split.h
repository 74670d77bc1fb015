#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace qrl::tasks {

/// A generated task's split: a hash of its content, so that splits are disjoint for all seeds, sizes and ranges. One
/// task in four is held out.
enum class Split : std::uint8_t { train, held_out };
Split split_of(std::span<const std::int64_t> values);
Split split_of(std::string_view text);

}  // namespace qrl::tasks
