// Owns the interface of a rule that judges one response at a time by a ground truth in text. Knows nothing of batches
// and rewards (tasks/verifier.h).
#pragma once

#include <string>
#include <string_view>

#include "config/recipe.h"
#include "reward/answer.h"
#include "reward/verdict.h"

namespace qrl::reward {

/// Stateless and thread-safe. `judge` never throws and its work is bounded whatever the bytes.
class Verifier {
 public:
  virtual ~Verifier() = default;
  /// Throws an input error when `ground_truth` (of `where`) is not one this verifier can judge by: checked at load.
  virtual void check_ground_truth(std::string_view ground_truth, const std::string& where) const = 0;
  virtual Verdict judge(std::string_view response, std::string_view ground_truth) const noexcept = 0;
  /// Whether two answers that it extracted (Verdict::extracted) are the same answer, whatever the ground truth. Bounded
  /// as `judge` is. Here: the same text.
  virtual bool same_answer(std::string_view one, std::string_view other) const noexcept { return one == other; }
};

}  // namespace qrl::reward
