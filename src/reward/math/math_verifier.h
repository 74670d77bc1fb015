// Owns the math verifier: an answer found by a profile, judged by compare.h and, as reward.answer_form says, by
// answer_form.h.
#pragma once

#include "reward/verifier.h"

namespace qrl::reward::math {

class MathVerifier final : public Verifier {
 public:
  explicit MathVerifier(config::MathProfile profile, config::AnswerForm form = config::AnswerForm::any)
      : profile_(profile), form_(form) {}
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const override;
  Verdict judge(std::string_view response, std::string_view ground_truth) const noexcept override;
  /// Equal in both orders, by compare.h; answers cut short (kMaxExtracted_bytes) as texts.
  bool same_answer(std::string_view one, std::string_view other) const noexcept override;

 private:
  config::MathProfile profile_;
  config::AnswerForm form_;
};

}  // namespace qrl::reward::math
