// Owns the frozen reference of a full training's KL loss: RL's first weights in the learner's forward format.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "learner/learner.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run_plan.h"

namespace qrl::train {

class Reference {
 public:
  /// Reads the cold start's weights from its checkpoint, or without a cold start the policy's. `profile`: the
  /// sampler's, or null. Collective.
  Reference(const RunContext& run, const RunState& state, const std::filesystem::path& cold_start,
            std::shared_ptr<const model::Int8Profile> profile);

  learner::Learner& learner() { return learner_; }

 private:
  std::optional<model::Snapshot> snapshot_;  ///< of a quantized forward pass
  learner::Learner learner_;
};

}  // namespace qrl::train
