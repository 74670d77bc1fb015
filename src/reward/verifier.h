// Owns the interface of verifiers: model text in, score out. Knows nothing of tokens, shaping or training.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "config/recipe.h"

namespace qrl::reward {

enum class Outcome : std::uint8_t {
  correct,
  wrong,        ///< an answer in the right form that does not solve the task
  no_answer,    ///< no answer found, or not in the grammar
};

struct Verdict {
  Outcome outcome = Outcome::no_answer;
  std::string_view reason;      ///< static text: "correct", "wrong value", "numbers differ", "no answer", …
  bool verifier_error = false;  ///< a budget ran out: counted apart from wrong answers
};

/// Stateless and thread-safe. `judge` never throws and its work is bounded whatever the bytes.
class Verifier {
 public:
  virtual ~Verifier() = default;
  /// Throws an input error when `ground_truth` (of `where`) is not one this verifier can judge by: checked at load.
  virtual void check_ground_truth(std::string_view ground_truth, const std::string& where) const = 0;
  virtual Verdict judge(std::string_view response, std::string_view ground_truth) const noexcept = 0;
};

std::unique_ptr<Verifier> make_verifier(const config::RewardRecipe& recipe);

/// The answer's text: the last complete <answer>…</answer> (a \boxed{} inside is unwrapped), else the last \boxed{…};
/// `boxed` tells whether a box was opened. Returns false when there is none.
bool extract_answer(std::string_view response, std::string_view& answer, bool& boxed);

}  // namespace qrl::reward
