// Owns the countdown verifier: which numbers an answer may use and what it must equal. The grammar and its limits are
// expression.h's (reliability.md). Ground truth: {"numbers":[3,8,12],"target":36}.
//
// Where the rules leave a choice, it follows the verdicts of known answers (tests/reward):
// - Inside \boxed{}, which is LaTeX, \times, \cdot and \div stand for * and /; \frac and everything else of LaTeX is
//   refused. In a plain <answer> the operators are ASCII only.
// - Inside \boxed{} one trailing "= value" is dropped whatever the value (a decimal number): what counts is what the
//   expression equals. Elsewhere, or twice, "=" is refused.
// - A response may be longer than what is searched, an answer longer or deeper than what is read: then no answer, and
//   verifier_error is set.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "reward/expression.h"
#include "reward/verifier.h"

namespace qrl::reward {

/// What a ground truth says.
struct CountdownTruth {
  std::array<std::int64_t, kMaxNumbers> values{};  ///< the numbers, ascending; each 0 or more
  std::size_t num_numbers = 0;
  std::int64_t target = 0;

  std::span<const std::int64_t> numbers() const noexcept { return std::span(values).first(num_numbers); }
};

/// Nothing where the text is no countdown ground truth. Builds no document: judge() reads it once a response.
std::optional<CountdownTruth> read_countdown_truth(std::string_view text);

class CountdownVerifier final : public Verifier {
 public:
  explicit CountdownVerifier(config::Numbers numbers) : numbers_(numbers) {}
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const override;
  Verdict judge(std::string_view response, std::string_view ground_truth) const noexcept override;

 private:
  config::Numbers numbers_;
};

}  // namespace qrl::reward
