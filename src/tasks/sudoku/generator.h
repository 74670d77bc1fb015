// Owns sudoku tasks: their text, their generator and their worked demonstrations. Knows nothing of how answers are
// judged.
#pragma once

#include <cstdint>
#include <string>

#include "tasks/split.h"
#include "tasks/sudoku/grid.h"

namespace qrl::tasks {

struct SudokuTask {
  SudokuGrid puzzle, solution;
};

/// What grids a generator makes.
struct SudokuRanges {
  int grid_size = 4;                          ///< rows of a grid: 4 or 9
  std::int64_t min_empty = 0, max_empty = 0;  ///< empty cells
};

/// Task `index` of the endless sequence (ranges, seed, split): a grid of ranges.grid_size with ranges.min_empty to
/// max_empty empty cells and exactly one solution. Solutions of 4×4 are chosen evenly from all 288; of 9×9 the boxes on
/// the diagonal are random and the rest follows. Clues are taken away in a random order as long as the solution stays
/// the only one. Throws an input error when no grid in a thousand can be emptied that far.
SudokuTask generate_sudoku(const SudokuRanges& ranges, std::uint64_t seed, Split split, std::uint64_t index);

/// "3102 2000 0210 0320\n": rows, 0 for an empty cell.
std::string sudoku_prompt(const SudokuTask& task);
/// {"puzzle":…,"solution":…}.
std::string sudoku_ground_truth(const SudokuTask& task);

/// "<answer>3142 2431 4213 1324</answer>" for a task of the train split, in which every empty cell is wrong with a
/// chance of one in six (ours; chosen by measuring): another digit of the grid in its place.
std::string demonstrate_sudoku(const SudokuTask& task, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks
