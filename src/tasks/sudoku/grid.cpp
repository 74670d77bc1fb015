#include "tasks/sudoku/grid.h"

#include <algorithm>
#include <bit>

namespace qrl::tasks {

namespace {

/// Has bit d set if a row, column or box has digit d.
struct Used {
  std::array<std::uint16_t, 9> row{}, column{}, box{};
};

int box_of(const SudokuGrid& grid, int cell) noexcept {
  const int side = grid.size == 4 ? 2 : 3;
  return cell / grid.size / side * side + cell % grid.size / side;
}

std::size_t idx(int i) noexcept { return static_cast<std::size_t>(i); }

class Solver {
 public:
  Solver(const SudokuGrid& puzzle, std::size_t max_solutions, std::int64_t max_trials)
      : grid_(puzzle), max_solutions_(max_solutions), trials_left_(max_trials) {
    for (int cell = 0; cell < grid_.num_cells(); ++cell) {
      if (grid_.cells[idx(cell)] != 0) mark(cell, grid_.cells[idx(cell)]);
    }
  }

  SudokuSolutions run() {
    out_.complete = true;
    search();
    return std::move(out_);
  }

 private:
  void mark(int cell, int digit) noexcept {  // toggles, so that a second call removes the mark
    const auto bit = static_cast<std::uint16_t>(1u << digit);
    used_.row[idx(cell / grid_.size)] ^= bit;
    used_.column[idx(cell % grid_.size)] ^= bit;
    used_.box[idx(box_of(grid_, cell))] ^= bit;
  }
  unsigned candidates(int cell) const noexcept {
    const unsigned all = (2u << grid_.size) - 2u;
    return all & ~static_cast<unsigned>(used_.row[idx(cell / grid_.size)] | used_.column[idx(cell % grid_.size)] |
                                        used_.box[idx(box_of(grid_, cell))]);
  }

  /// Returns whether to continue. Recurses at most 81 deep.
  bool search() {
    int best = -1;
    unsigned digits = 0;
    for (int cell = 0; cell < grid_.num_cells(); ++cell) {
      if (grid_.cells[idx(cell)] != 0) continue;
      const unsigned here = candidates(cell);
      if (best >= 0 && std::popcount(here) >= std::popcount(digits)) continue;
      best = cell;
      digits = here;
      if (std::popcount(digits) <= 1) break;
    }
    if (best < 0) {
      out_.grids.push_back(grid_);
      if (out_.grids.size() < max_solutions_) return true;
      out_.complete = false;
      return false;
    }
    for (; digits != 0; digits &= digits - 1) {
      if (trials_left_-- <= 0) {
        out_.complete = false;
        return false;
      }
      const int digit = std::countr_zero(digits);
      grid_.cells[idx(best)] = static_cast<std::uint8_t>(digit);
      mark(best, digit);
      const bool go_on = search();
      mark(best, digit);
      grid_.cells[idx(best)] = 0;
      if (!go_on) return false;
    }
    return true;
  }

  SudokuGrid grid_;
  Used used_;
  std::size_t max_solutions_;
  std::int64_t trials_left_;
  SudokuSolutions out_;
};

}  // namespace

std::optional<SudokuGrid> read_sudoku(std::string_view digits) noexcept {
  SudokuGrid grid;
  grid.size = digits.size() == 16 ? 4 : digits.size() == 81 ? 9 : 0;
  if (grid.size == 0) return std::nullopt;
  for (std::size_t k = 0; k < digits.size(); ++k) {
    const int digit = digits[k] == '.' ? 0 : digits[k] - '0';
    if (digit < 0 || digit > grid.size) return std::nullopt;
    grid.cells[k] = static_cast<std::uint8_t>(digit);
  }
  return grid;
}

std::string sudoku_digits(const SudokuGrid& grid) {
  std::string digits;
  for (int cell = 0; cell < grid.num_cells(); ++cell) digits += static_cast<char>('0' + grid.cells[idx(cell)]);
  return digits;
}

bool is_consistent(const SudokuGrid& grid) noexcept {
  Used used;
  for (int cell = 0; cell < grid.num_cells(); ++cell) {
    if (grid.cells[idx(cell)] == 0) continue;
    const auto bit = static_cast<std::uint16_t>(1u << grid.cells[idx(cell)]);
    for (std::uint16_t* unit :
         {&used.row[idx(cell / grid.size)], &used.column[idx(cell % grid.size)], &used.box[idx(box_of(grid, cell))]}) {
      if ((*unit & bit) != 0) return false;
      *unit = static_cast<std::uint16_t>(*unit | bit);
    }
  }
  return true;
}

bool is_solved(const SudokuGrid& grid) noexcept {
  const auto* end = grid.cells.begin() + grid.num_cells();
  return std::find(grid.cells.begin(), end, 0) == end && is_consistent(grid);
}

bool keeps_clues(const SudokuGrid& puzzle, const SudokuGrid& grid) noexcept {
  if (puzzle.size != grid.size) return false;
  for (int cell = 0; cell < puzzle.num_cells(); ++cell) {
    if (puzzle.cells[idx(cell)] != 0 && puzzle.cells[idx(cell)] != grid.cells[idx(cell)]) return false;
  }
  return true;
}

SudokuSolutions solve_sudoku(const SudokuGrid& puzzle, std::size_t max_solutions, std::int64_t max_trials) {
  if (!is_consistent(puzzle)) return {{}, true};
  return Solver(puzzle, max_solutions, max_trials).run();
}

}  // namespace qrl::tasks
