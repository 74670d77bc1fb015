// Owns the countdown verifier. Ground truth: {"numbers":[3,8,12],"target":36}.
// - A boxed answer may use LaTeX operators. A "= value" at its end is dropped (docs/reference/verifiers.md).
// - An answer beyond the limits counts as no answer, with verifier_error.
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

/// Parses a ground truth as strictly as state::json_or_null; none if invalid.
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
