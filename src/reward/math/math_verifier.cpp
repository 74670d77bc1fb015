#include "reward/math/math_verifier.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "reward/math/answer_form.h"
#include "reward/math/extract.h"

namespace qrl::reward::math {

Verdict MathVerifier::judge_answer(const Gold& gold, const Reading& answer) const {
  if (answer.text().empty()) return {Outcome::no_answer, "no answer"};
  if (answer.text().size() > kMaxAnswer_bytes) return {Outcome::no_answer, "answer too long", true};
  switch (compare(gold.reading, answer)) {
    case Comparison::equal:
      if (form_ == config::AnswerForm::value && !is_worked_out_as(gold.reading, answer))
        return {Outcome::wrong, "operation left to do"};
      return {Outcome::correct, "correct"};
    case Comparison::different:
      return {Outcome::wrong, "wrong value"};
    case Comparison::out_of_budget:
      return {Outcome::no_answer, "out of budget", true};
    case Comparison::unreadable:
      break;
  }
  return {Outcome::no_answer, "not readable"};
}

Gold read_gold(std::string_view ground_truth) {
  Gold gold{Reading(extract_gold(ground_truth))};
  gold.is_readable =
      !gold.reading.text().empty() && (gold.reading.reads()[0].answer.has_value() || fault_of(gold.reading).empty());
  return gold;
}

Verdict MathVerifier::judge(std::string_view response, const Gold& gold) const noexcept try {
  if (!gold.is_readable) return {Outcome::no_answer, "gold", true};
  Verdict verdict{Outcome::no_answer, "no answer"};
  for (const std::string& candidate : extract(response, profile_)) {
    Verdict next = judge_answer(gold, Reading(candidate));
    next.extracted = shown(candidate);
    const bool first = verdict.extracted.empty();
    if (first || next.outcome == Outcome::correct || verdict.outcome == Outcome::no_answer) verdict = std::move(next);
    if (verdict.outcome == Outcome::correct) break;
  }
  return verdict;
} catch (...) {
  return {Outcome::no_answer, "out of memory", true};
}

void MathVerifier::check_ground_truth(std::string_view ground_truth, const std::string& where) const {
  const std::string fault = fault_of(Reading(extract_gold(ground_truth)));
  QRL_REQUIRE(fault.empty(), where, "a gold answer in LaTeX or plain mathematics", base::quoted(ground_truth), fault);
}

bool MathVerifier::same_answer(std::string_view one, std::string_view other) const noexcept try {
  if (one == other) return true;
  constexpr std::size_t kLongestWhole_bytes = kMaxExtracted_bytes - 4;  // a character that did not fit is cut, too
  if (std::max(one.size(), other.size()) >= kLongestWhole_bytes) return false;
  return compare(Reading(one), Reading(other)) == Comparison::equal &&
         compare(Reading(other), Reading(one)) == Comparison::equal;
} catch (...) {
  return false;
}

}  // namespace qrl::reward::math
