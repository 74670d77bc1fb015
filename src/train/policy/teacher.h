#pragma once

#include "dist/collectives.h"
#include "learner/learner.h"
#include "train/policy/policy.h"

namespace qrl::train {

class Teacher {
 public:
  /// Loads algorithm.teacher.path, the frozen teacher of on-policy distillation, which scores the samples, optionally
  /// in low bits. Throws an input error if its tokenizer differs from the policy's or it has too few positions.
  Teacher(const config::Recipe& recipe, const Policy& policy, dist::Collectives& world);

  learner::Learner& learner() { return learner_; }

 private:
  Policy model_;
  model::Snapshot snapshot_;  ///< of a low-bit forward pass
  learner::Learner learner_;
};

}  // namespace qrl::train
