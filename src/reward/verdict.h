// Owns the verdict on a response: right or wrong, why, and what counts in its reward.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::reward {

enum class Outcome : std::uint8_t {
  correct,
  wrong,      ///< an answer in the right form that does not solve the task
  no_answer,  ///< no answer found, or not in the grammar
};

struct Verdict {
  Outcome outcome = Outcome::no_answer;
  std::string_view reason;      ///< static text: "correct", "wrong value", "numbers differ", "no answer", …
  bool verifier_error = false;  ///< a budget ran out: counted apart from wrong answers
  double credit = 0;            ///< partial credit of a wrong answer, 0 to 1, where the task has it
  std::string extracted;        ///< the answer that was judged, its first kMaxExtracted_bytes bytes
  /// As many as its verifier names (tasks::Verifier::score_names), in that order; empty until a verifier's batch is
  /// done.
  /// NaN: the score does not apply to this response.
  std::vector<double> scores = {};
  bool dropped = false;     ///< not judged: left out of its group, of the loss and of scores
  std::string detail = {};  ///< the reason in the verifier's own words; "": `reason` says it
};

inline constexpr std::size_t kMaxExtracted_bytes = 512;

/// For Verdict::extracted: cut between characters where it is too long.
std::string shown(std::string_view answer);

}  // namespace qrl::reward
