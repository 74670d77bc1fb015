// Owns the teacher of on-policy distillation: a frozen model that scores the policy's samples, in low bits if the
// recipe says so. Knows nothing of advantages.
#pragma once

#include "dist/collectives.h"
#include "learner/learner.h"
#include "train/session.h"

namespace qrl::train {

class Teacher {
 public:
  /// Reads algorithm.teacher.path. An input error when its tokenizer has other tokens than the policy's, or when its
  /// positions are too few for the recipe's sequences.
  Teacher(const config::Recipe& recipe, const Policy& policy, dist::Collectives& world);

  learner::Learner& learner() { return learner_; }

 private:
  Policy model_;
  model::Snapshot snapshot_;  ///< with weights in low bits what the learner's forward pass reads
  learner::Learner learner_;
};

}  // namespace qrl::train
