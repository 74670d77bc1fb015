// Owns the countdown verifier: which numbers an answer may use and what it must equal. The grammar and its limits are
// expression.h's. Ground truth: {"numbers":[3,8,12],"target":36}.
//
// Where the rules leave a choice, it follows the verdicts of known answers (tests/tasks):
// - Inside \boxed{}, which is LaTeX, \times, \cdot and \div stand for * and /; \frac and everything else of LaTeX is
//   refused. In a plain <answer> the operators are ASCII only.
// - Inside \boxed{} one trailing "= value" is dropped whatever the value (a decimal number): what counts is what the
//   expression equals. Elsewhere, or twice, "=" is refused.
// - A response may be longer than what is searched, an answer longer or deeper than what is read: then no answer, and
//   verifier_error is set.
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

/// What a ground truth says.
struct CountdownTruth {
  std::vector<std::int64_t> numbers;  ///< ascending; 1 to kMaxNumbers of them, each 0 or more
  std::int64_t target = 0;
};

/// Nothing where the text is no countdown ground truth. Builds no document, however the text is nested.
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
