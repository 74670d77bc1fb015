#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::tasks {

struct SudokuGrid {
  int size = 4;                          ///< rows, columns and digits: 4 or 9
  std::array<std::uint8_t, 81> cells{};  ///< row-major; 0: empty

  int num_cells() const noexcept { return size * size; }
  friend bool operator==(const SudokuGrid&, const SudokuGrid&) = default;
};

/// Parses 16 or 81 digits in row-major order, with 0 or '.' for an empty cell; none for other texts.
std::optional<SudokuGrid> read_sudoku(std::string_view digits) noexcept;
std::string sudoku_digits(const SudokuGrid& grid);

/// Returns whether no row, column or box has a digit twice.
bool is_consistent(const SudokuGrid& grid) noexcept;
bool is_solved(const SudokuGrid& grid) noexcept;
bool keeps_clues(const SudokuGrid& puzzle, const SudokuGrid& grid) noexcept;

struct SudokuSolutions {
  std::vector<SudokuGrid> grids;  ///< the first solutions found, in a fixed order
  bool complete = false;          ///< `grids` has all solutions
};
/// Backtracks over the cell with the fewest candidates. Stops at `max_solutions`, or after trying `max_trials` digits.
SudokuSolutions solve_sudoku(const SudokuGrid& puzzle, std::size_t max_solutions, std::int64_t max_trials);

}  // namespace qrl::tasks
