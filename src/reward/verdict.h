#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::reward {

enum class Outcome : std::uint8_t {
  correct,
  wrong,      ///< right form, but no solution of the task
  no_answer,  ///< no answer was found, or it does not parse
};

constexpr const char* name_of(Outcome outcome) {
  return outcome == Outcome::correct ? "correct" : outcome == Outcome::wrong ? "wrong" : "no_answer";
}

struct Verdict {
  Outcome outcome = Outcome::no_answer;
  std::string_view reason;  ///< static: "correct", "wrong value", "numbers differ", "no answer", …
  /// If set, the verifier failed, for example at a limit. Errors are counted apart from wrong answers.
  bool verifier_error = false;
  double credit = 0;      ///< partial credit of a wrong answer, 0 to 1
  std::string extracted;  ///< the judged answer, at most kMaxExtracted_bytes
  /// Scores, in the order of tasks::Verifier::score_names; empty until the batch is judged. NaN: does not apply.
  std::vector<double> scores = {};
  bool dropped = false;     ///< if set, excluded from its group, the loss and the scores
  std::string detail = {};  ///< the verifier's explanation; "": `reason` is sufficient
  /// If unset, the verifier gave only scores, and `outcome` compares the first of them with a threshold.
  bool has_outcome = true;
};

inline constexpr std::size_t kMaxExtracted_bytes = 512;

/// Returns the text for Verdict::extracted, truncated at a character boundary.
std::string shown(std::string_view answer);

}  // namespace qrl::reward
