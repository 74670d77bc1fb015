#pragma once

#include <cstdint>
#include <string>

#include "tasks/generator.h"
#include "tasks/sudoku/grid.h"

namespace qrl::tasks {

struct SudokuTask {
  SudokuGrid puzzle, solution;
};

struct SudokuRanges {
  int grid_size = 4;  ///< 4 or 9
  std::int64_t min_empty = 0, max_empty = 0;
};

/// Returns task `index` of the endless sequence (ranges, seed, split): a grid with exactly one solution and min_empty
/// to max_empty empty cells. A 4×4 solution is drawn uniformly from all 288. For 9×9, the solver completes three random
/// diagonal boxes. Throws an input error after a thousand unsuitable grids.
SudokuTask generate_sudoku(const SudokuRanges& ranges, std::uint64_t seed, Split split, std::uint64_t index);

/// Returns the rows, with 0 for an empty cell: "3102 2000 0210 0320\n".
std::string sudoku_prompt(const SudokuTask& task);
std::string sudoku_ground_truth(const SudokuTask& task);

/// Returns an answer to a train-split task: "<answer>3142 2431 4213 1324</answer>". Each empty cell gets a wrong digit
/// with probability 1/6.
std::string demonstrate_sudoku(const SudokuTask& task, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks
