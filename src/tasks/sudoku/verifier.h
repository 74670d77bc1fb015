// Owns the sudoku verifier for 4×4 and 9×9 grids. Ground truth: {"puzzle":"3102…"}, row-major, with 0 or . for empty
// cells. A "solution" is optional and checked at load; any other valid completion also counts.
//
// Details:
// - If there is an answer, the grid is read from it: the last complete <answer> (a box inside is unwrapped), else the
//   last box. Otherwise the end of the response is searched for consecutive rows, or for one run of digits of the
//   grid's size. Spaces, |, commas, dashes between cells, borders and brackets are ignored.
// - Partial credit is the share of empty cells that match the solution nearest to the answer; it is 0 unless all clues
//   are kept. At most 64 solutions are considered.
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
