// Owns the frozen policy that a KL loss of full training is against: the weights that RL begins with, in the learner's
// own forward format. So the KL begins at 0, as with adapters. Knows nothing of the loss.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "learner/learner.h"
#include "train/checkpoint.h"
#include "train/run_setup.h"

namespace qrl::train {

class Reference {
 public:
  /// Takes the end of the cold start from its checkpoint, or without a cold start the policy's weights. `profile`: what
  /// the sampler quantizes by, or null. Collective.
  Reference(const RunSetup& setup, const RunState& state, const std::filesystem::path& cold_start,
            std::shared_ptr<const model::Int8Profile> profile);

  learner::Learner& learner() { return learner_; }

 private:
  std::optional<model::Snapshot> snapshot_;  ///< what a quantized forward pass reads
  learner::Learner learner_;
};

}  // namespace qrl::train
