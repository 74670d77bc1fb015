#include "reward/math/math_verifier.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "reward/math/answer_form.h"
#include "reward/math/compare.h"
#include "reward/math/exclamation.h"
#include "reward/math/extract.h"

namespace qrl::reward::math {

namespace {

Verdict judge_answer(const std::string& gold, const std::string& answer, config::AnswerForm form) {
  if (answer.empty()) return {Outcome::no_answer, "no answer"};
  if (answer.size() > kMaxAnswer_bytes) return {Outcome::no_answer, "answer too long", true};
  switch (compare(gold, answer)) {
    case Comparison::equal:
      if (form == config::AnswerForm::value && !is_worked_out_as(gold, answer))
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

}  // namespace

Gold read_gold(std::string_view ground_truth) {
  Gold gold{extract_gold(ground_truth)};
  gold.is_readable = is_readable(gold.answer);
  return gold;
}

void MathVerifier::check_ground_truth(std::string_view ground_truth, const std::string& where) const {
  const std::string fault = gold_fault(extract_gold(ground_truth));
  QRL_REQUIRE(fault.empty(), where, "a gold answer in LaTeX or plain mathematics", base::quoted(ground_truth), fault);
}

Verdict MathVerifier::judge(std::string_view response, const Gold& gold) const noexcept try {
  if (!gold.is_readable) return {Outcome::no_answer, "gold", true};
  const auto answer = extract(response, profile_);
  if (!answer) return {Outcome::no_answer, "no answer"};
  Verdict verdict = judge_answer(gold.answer, *answer, form_);
  verdict.extracted = shown(*answer);
  if (verdict.outcome == Outcome::correct) return verdict;
  if (const auto number = exclaimed_number(response, *answer)) {
    const Verdict exclaimed = judge_answer(gold.answer, *number, form_);
    if (exclaimed.outcome == Outcome::correct) return {exclaimed.outcome, exclaimed.reason, false, 0, *number};
  }
  return verdict;
} catch (...) {
  return {Outcome::no_answer, "out of memory", true};
}

bool MathVerifier::same_answer(std::string_view one, std::string_view other) const noexcept try {
  if (one == other) return true;
  constexpr std::size_t kLongestWhole_bytes = kMaxExtracted_bytes - 4;  // a character that did not fit is cut, too
  if (std::max(one.size(), other.size()) >= kLongestWhole_bytes) return false;
  return compare(one, other) == Comparison::equal && compare(other, one) == Comparison::equal;
} catch (...) {
  return false;
}

}  // namespace qrl::reward::math
