#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace qrl::tasks {

/// The numbers that an answer uses: all, or any subset, each at most once.
enum class Numbers : std::uint8_t { all, subset };

inline constexpr std::size_t kMaxCountdownNumbers = 6;

/// Returns an expression for `target`, such as "3*8+12", or none. The expression has + − * /, parentheses, and each of
/// `numbers` (1 to kMaxCountdownNumbers values, none negative) exactly once for Numbers::all, else at most once. Values
/// are exact 64-bit fractions. The search is complete.
std::optional<std::string> solve_countdown(std::span<const std::int64_t> numbers, std::int64_t target, Numbers use);

}  // namespace qrl::tasks
