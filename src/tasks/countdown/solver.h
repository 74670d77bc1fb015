// Owns the solver of countdown tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace qrl::tasks {

/// Selects the numbers that an answer must use: all of them, or any subset, each at most once.
enum class Numbers : std::uint8_t { all, subset };

inline constexpr std::size_t kMaxCountdownNumbers = 6;

/// Returns an expression such as "3*8+12" that equals `target`, or nothing if none exists. It uses `numbers` (1 to
/// kMaxCountdownNumbers, none negative) with + − * / and parentheses: each exactly once (`use` all) or at most once.
/// Intermediate values are exact 64-bit fractions. The search is complete: at most some ten thousand lookups for six
/// numbers.
std::optional<std::string> solve_countdown(std::span<const std::int64_t> numbers, std::int64_t target, Numbers use);

}  // namespace qrl::tasks
