#include "tasks/sudoku/generator.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace qrl::tasks {

namespace {

constexpr std::int64_t kMaxTrials = 1'000'000;
constexpr double kWrongCell = 1.0 / 6;

SudokuGrid random_solution(int size, base::RandomStream& random) {
  SudokuGrid grid;
  grid.size = size;
  if (size == 4) {
    static const auto all = solve_sudoku(grid, 1000, kMaxTrials).grids;
    return all[random.below(all.size())];
  }
  for (int box = 0; box < 3; ++box) {  // diagonal boxes share no row or column, so any filling can be completed
    std::array<std::uint8_t, 9> digits{};
    std::iota(digits.begin(), digits.end(), std::uint8_t{1});
    random.shuffle(std::span<std::uint8_t>(digits));
    for (int k = 0; k < 9; ++k) {
      const int row = 3 * box + k / 3, column = 3 * box + k % 3;
      grid.cells[static_cast<std::size_t>(9 * row + column)] = digits[static_cast<std::size_t>(k)];
    }
  }
  const auto solved = solve_sudoku(grid, 1, kMaxTrials);
  QRL_INVARIANT(!solved.grids.empty(), "sudoku generator", "a completion of three diagonal boxes", "no completion");
  return solved.grids.front();
}

std::optional<SudokuGrid> emptied(const SudokuGrid& solution, std::int64_t num_empty, base::RandomStream& random) {
  std::vector<std::size_t> order(static_cast<std::size_t>(solution.num_cells()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(std::span<std::size_t>(order));
  SudokuGrid puzzle = solution;
  for (const std::size_t cell : order) {
    if (num_empty == 0) break;
    const std::uint8_t digit = std::exchange(puzzle.cells[cell], std::uint8_t{0});
    const auto solutions = solve_sudoku(puzzle, 2, kMaxTrials);
    if (solutions.grids.size() == 1 && solutions.complete) --num_empty;
    else puzzle.cells[cell] = digit;
  }
  return num_empty == 0 ? std::optional(puzzle) : std::nullopt;
}

std::string rows_of(const SudokuGrid& grid) {
  const std::string digits = sudoku_digits(grid);
  std::string rows;
  const auto size = static_cast<std::size_t>(grid.size);
  for (std::size_t row = 0; row < size; ++row) rows += (row == 0 ? "" : " ") + digits.substr(row * size, size);
  return rows;
}

}  // namespace

SudokuTask generate_sudoku(const SudokuRanges& ranges, std::uint64_t seed, Split split, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::generator, index * 2 + (split == Split::held_out ? 1 : 0));
  constexpr int kMaxGrids = 1000;
  for (int attempt = 0; attempt < kMaxGrids; ++attempt) {
    const auto solution = random_solution(ranges.grid_size, random);
    const std::int64_t num_empty = random.between(ranges.min_empty, ranges.max_empty);
    const auto puzzle = emptied(solution, num_empty, random);
    if (puzzle && split_of(sudoku_digits(*puzzle)) == split) return {*puzzle, solution};
  }
  base::fail_input("sudoku generator",
                   "grids with one solution and " + std::to_string(ranges.min_empty) + " to " +
                       std::to_string(ranges.max_empty) + " empty cells",
                   "no such grid in " + std::to_string(kMaxGrids), "lower max_empty");
}

std::string sudoku_prompt(const SudokuTask& task) { return rows_of(task.puzzle) + "\n"; }

std::string sudoku_ground_truth(const SudokuTask& task) {
  return nlohmann::ordered_json{{"puzzle", sudoku_digits(task.puzzle)}, {"solution", sudoku_digits(task.solution)}}
      .dump();
}

std::string demonstrate_sudoku(const SudokuTask& task, std::uint64_t seed, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::demonstrations, index * 2 + 1);
  SudokuGrid answer = task.solution;
  for (std::size_t cell = 0; cell < static_cast<std::size_t>(answer.num_cells()); ++cell) {
    if (task.puzzle.cells[cell] != 0 || random.uniform() >= kWrongCell) continue;
    const auto shift = 1 + random.below(static_cast<std::uint64_t>(answer.size - 1));
    answer.cells[cell] =
        static_cast<std::uint8_t>(1 + (answer.cells[cell] - 1 + shift) % static_cast<std::uint64_t>(answer.size));
  }
  return "<answer>" + rows_of(answer) + "</answer>";
}

}  // namespace qrl::tasks
