#include "tasks/task.h"

#include "tasks/sudoku/generator.h"
#include "tasks/sudoku/verifier.h"

namespace qrl::tasks {

namespace {

const config::WordParam<int> kGridSize{"grid_size", {{"4", 4}, {"9", 9}}, "rows of a grid"};
const config::IntegerParam kMinEmpty{"min_empty", {1, 64}, 4, "fewest empty cells", "max_empty"};
const config::IntegerParam kMaxEmpty{
    "max_empty", {1, 64}, 8, "most empty cells; 4x4 grids can have up to 12, 9x9 grids about 55"};

SudokuRanges ranges_of(const config::ParamValues& own) {
  return {own.of(kGridSize), own.of(kMinEmpty), own.of(kMaxEmpty)};
}

GeneratedTask written(const SudokuTask& task) { return {sudoku_prompt(task), sudoku_ground_truth(task)}; }

GeneratedTask generate(const config::ParamValues& own, std::uint64_t seed, Split split, std::uint64_t index) {
  return written(generate_sudoku(ranges_of(own), seed, split, index));
}

WorkedTask demonstrate(const config::ParamValues& own, std::uint64_t seed, std::uint64_t index) {
  const SudokuTask task = generate_sudoku(ranges_of(own), seed, Split::train, demonstrated_index(seed, index));
  return {written(task), demonstrate_sudoku(task, seed, index)};
}

std::unique_ptr<Verifier> make(const VerifierOptions&) { return std::make_unique<SudokuVerifier>(); }

}  // namespace

extern const Task sudoku_task;
const Task sudoku_task{
    {{.word = "sudoku", .what = "grids with one solution", .params = {kGridSize, kMinEmpty, kMaxEmpty}},
     generate,
     demonstrate},
    {{.word = "sudoku",
      .what = "a filled grid; partial credit is the share of empty cells filled correctly",
      .uses = {"reward.partial"}},
     make,
     "grids",
     {{"puzzle", true}, {"solution", true, true}}}};

}  // namespace qrl::tasks
