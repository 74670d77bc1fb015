#include "tasks/math/verifier.h"

namespace qrl::tasks {

namespace {

struct MathGold final : types::Gold {
  std::string text;
};

}  // namespace

std::shared_ptr<const types::Gold> MathVerifier::prepare(const Question& question) const {
  auto gold = std::make_shared<MathGold>();
  gold->text = question.ground_truth;
  return gold;
}

Verdict MathVerifier::judge_one(std::string_view response, const types::Gold& gold) const noexcept {
  return rules_.judge(response, static_cast<const MathGold&>(gold).text);
}

}  // namespace qrl::tasks
