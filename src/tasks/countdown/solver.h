#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace qrl::tasks {

enum class Numbers : std::uint8_t { all, subset };

inline constexpr std::size_t kMaxCountdownNumbers = 6;

/// Returns an expression of + − * / and parentheses that equals `target`, such as "3*8+12". Returns none if no such
/// expression exists. The expression uses each of `numbers` exactly once for Numbers::all, else at most once. `numbers`
/// has 1 to kMaxCountdownNumbers values, none negative. Intermediate values are exact 64-bit fractions.
std::optional<std::string> solve_countdown(std::span<const std::int64_t> numbers, std::int64_t target, Numbers use);

}  // namespace qrl::tasks
