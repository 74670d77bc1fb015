// Owns the sudoku verifier. Ground truth: {"puzzle":"3102…"}, row-major, with 0 or . for empty cells. A "solution" is
// optional and checked at load; any other valid completion also counts.
// - The grid is in the last complete <answer> (or a box in it); without tags, in the last box. A text without a box
//   gives its last consecutive rows, or its last line with all digits. Signs between cells are ignored.
// - Partial credit is the share of empty cells that match the nearest of at most 64 solutions; 0 unless all clues are
//   kept.
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
