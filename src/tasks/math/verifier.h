// Owns the verifier of math, by the rules of reward/math.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reward/math/math_verifier.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

class MathVerifier final : public RuleVerifier {
 public:
  explicit MathVerifier(reward::math::Profile profile,
                        reward::math::RequiredForm form = reward::math::RequiredForm::any)
      : rules_(profile, form) {}
  void check_ground_truth(const Question& question, const std::string& where) const override {
    rules_.check_ground_truth(question.ground_truth, where);
  }
  /// Parses the ground truth. Never returns null; the verdict reports an unreadable gold answer.
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override {
    return std::make_shared<MathGold>(reward::math::read_gold(question.ground_truth));
  }
  Verdict judge_one(std::string_view response, const types::Gold& gold) const noexcept override {
    return rules_.judge(response, static_cast<const MathGold&>(gold).value);
  }
  bool same_answer(std::string_view one, std::string_view other) const noexcept override {
    return rules_.same_answer(one, other);
  }

 private:
  struct MathGold final : types::Gold {
    explicit MathGold(reward::math::Gold gold) : value(std::move(gold)) {}
    reward::math::Gold value;
  };

  reward::math::MathVerifier rules_;
};

}  // namespace qrl::tasks
