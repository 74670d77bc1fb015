// Owns the math verifier: an answer found by a profile (extract.h), read and compared (reading.h) and, as
// reward.answer_form says, judged by its form (answer_form.h).
#pragma once

#include <string>
#include <string_view>

#include "config/recipe.h"
#include "reward/math/reading.h"
#include "reward/verdict.h"

namespace qrl::reward::math {

/// A gold answer, read once for all responses to its prompt.
struct Gold {
  Reading reading;
  bool is_readable = false;
};
Gold read_gold(std::string_view ground_truth);

/// Stateless and thread-safe.
class MathVerifier {
 public:
  explicit MathVerifier(config::MathProfile profile, config::AnswerForm form = config::AnswerForm::any)
      : profile_(profile), form_(form) {}
  /// Throws an input error when `ground_truth` (of `where`) is not one this verifier can judge by: checked at load.
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const;
  /// Never throws, and its work is bounded whatever the bytes.
  Verdict judge(std::string_view response, const Gold& gold) const noexcept;
  /// Equal in both orders, by reading.h; answers cut short (kMaxExtracted_bytes) as texts. Bounded as `judge` is.
  bool same_answer(std::string_view one, std::string_view other) const noexcept;

 private:
  Verdict judge_answer(const Gold& gold, const Reading& answer) const;
  config::MathProfile profile_;
  config::AnswerForm form_;
};

}  // namespace qrl::reward::math
