#include "tasks/math/verifier.h"

#include <utility>

namespace qrl::tasks {

namespace {

struct MathGold final : types::Gold {
  explicit MathGold(reward::math::Gold gold) : value(std::move(gold)) {}
  reward::math::Gold value;
};

}  // namespace

std::shared_ptr<const types::Gold> MathVerifier::prepare(const Question& question) const {
  return std::make_shared<MathGold>(reward::math::read_gold(question.ground_truth));
}

Verdict MathVerifier::judge_one(std::string_view response, const types::Gold& gold) const noexcept {
  return rules_.judge(response, static_cast<const MathGold&>(gold).value);
}

}  // namespace qrl::tasks
