// Owns the countdown verifier: the numbers that an answer may use, and the value that it must have. expression.h has
// the grammar and its limits. Ground truth: {"numbers":[3,8,12],"target":36}.
//
// Details follow the verdicts of known answers (tests/tasks):
// - \boxed{} holds LaTeX: \times, \cdot and \div mean * and /, and other LaTeX except \frac is rejected. A plain
//   <answer> has ASCII operators only.
// - In \boxed{} one trailing "= value" is ignored, whatever the decimal number: only the value of the expression
//   counts. Elsewhere, or twice, "=" is rejected.
// - An answer that is longer or deeper than the limits counts as no answer, with verifier_error set. A response may be
//   longer than the part that is searched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/countdown/solver.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

struct CountdownTruth {
  std::vector<std::int64_t> numbers;  ///< ascending; 1 to kMaxNumbers values, each 0 or more
  std::int64_t target = 0;
};

/// Parses a ground truth; returns nothing for any other text. No JSON document is built, so deep nesting is harmless.
std::optional<CountdownTruth> read_countdown_truth(std::string_view text);

class CountdownVerifier final : public RuleVerifier {
 public:
  explicit CountdownVerifier(Numbers numbers) : numbers_(numbers) {}
  void check_ground_truth(const Question& question, const std::string& where) const override;
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override;
  Verdict judge_one(std::string_view response, const types::Gold& gold) const noexcept override;

 private:
  Numbers numbers_;
};

}  // namespace qrl::tasks
