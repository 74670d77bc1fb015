// Owns whether a countdown task can be solved, and how. Knows nothing of prompts, responses and how answers are judged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace qrl::tasks {

/// Which of the given numbers an answer must use, each at most once.
enum class Numbers : std::uint8_t { all, subset };

inline constexpr std::size_t kMaxCountdownNumbers = 6;

/// An expression such as "3*8+12" that is worth `target`, out of `numbers` (1 to kMaxCountdownNumbers, none negative)
/// with + − * / and parentheses, each used exactly once (`use` all) or at most once; nothing where there is none. Exact
/// fractions on the way, as far as 64 bits hold them. Complete and bounded: of four numbers without a solution some
/// hundred values are looked up, of six some ten thousand.
std::optional<std::string> solve_countdown(std::span<const std::int64_t> numbers, std::int64_t target, Numbers use);

}  // namespace qrl::tasks
