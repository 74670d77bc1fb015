#include "countdown_rows.h"

#include <algorithm>

#include "base/threads.h"
#include "tasks/countdown/solver.h"
#include "tasks/countdown/verifier.h"

namespace qrl::app {

namespace {

enum class Search : std::uint8_t { no_countdown, too_many_numbers, solvable, unsolvable };

Search search(const data::PromptRow& row, tasks::Numbers numbers) {
  const auto truth = tasks::read_countdown_truth(row.ground_truth);
  if (!truth) return Search::no_countdown;
  if (truth->numbers.size() > tasks::kMaxCountdownNumbers) return Search::too_many_numbers;
  return tasks::solve_countdown(truth->numbers, truth->target, numbers) ? Search::solvable : Search::unsolvable;
}

/// Returns e.g. "lines 4, 17, 90" of the rows with result `wanted`, at most eight.
std::string lines_of(const std::vector<data::PromptRow>& rows, const std::vector<Search>& results, Search wanted) {
  constexpr int kMaxNamed = 8;
  std::string lines;
  int num_named = 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (results[k] != wanted) continue;
    if (++num_named > kMaxNamed) return "lines " + lines + ", …";
    lines += (lines.empty() ? "" : ", ") + std::to_string(rows[k].line);
  }
  return (num_named == 1 ? "line " : "lines ") + lines;
}

}  // namespace

std::string describe_unsolvable_countdown(const std::vector<data::PromptRow>& rows, tasks::Numbers numbers) {
  std::vector<Search> results(rows.size());
  base::parallel_for(static_cast<std::int64_t>(rows.size()), 16, [&](base::Range range) {
    for (auto k = static_cast<std::size_t>(range.begin); k < static_cast<std::size_t>(range.end); ++k)
      results[k] = search(rows[k], numbers);
  });
  const auto count = [&](Search wanted) { return std::count(results.begin(), results.end(), wanted); };
  const auto num_unsolvable = count(Search::unsolvable), num_long = count(Search::too_many_numbers);
  const auto num_rows = num_unsolvable + num_long + count(Search::solvable);
  std::string text;
  if (num_unsolvable > 0) {
    text += std::to_string(num_unsolvable) + " of " + std::to_string(num_rows) +
            " countdown rows have no solution with " +
            (numbers == tasks::Numbers::all ? "every number used once" : "any of the numbers, each used at most once") +
            ": " + lines_of(rows, results, Search::unsolvable) + "\n";
  }
  if (num_long > 0) {
    text += std::to_string(num_long) + " of " + std::to_string(num_rows) + " countdown rows have more than " +
            std::to_string(tasks::kMaxCountdownNumbers) +
            " numbers, and a solution was not looked for: " + lines_of(rows, results, Search::too_many_numbers) + "\n";
  }
  return text;
}

}  // namespace qrl::app
