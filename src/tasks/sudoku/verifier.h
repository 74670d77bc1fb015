// Owns the sudoku verifier: 4×4 and 9×9 grids. Ground truth: {"puzzle":"3102…"} with 0 or . for empty cells, by rows;
// a "solution" beside it is checked at load, and any other valid completion counts as well.
//
// Where the rules leave a choice:
// - The grid is read from the answer (the last complete <answer>, a box inside unwrapped, else the last box) when there
//   is one, else from the end of the response: the last run of rows of one digit a cell, or the last run of digits of
//   the grid's size in one piece. Spaces, |, commas, dashes between cells, borders and brackets do not count.
// - Partial credit: the share of the empty cells that are as in the solution nearest to the answer, only if all clues
//   are kept. Of several solutions the first 64 are looked at.
#pragma once

#include "tasks/verifier.h"

namespace qrl::tasks {

class SudokuVerifier final : public RuleVerifier {
 public:
  void check_ground_truth(const Question& question, const std::string& where) const override;
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override;
  Verdict judge_one(std::string_view response, const types::Gold& gold) const noexcept override;
};

}  // namespace qrl::tasks
