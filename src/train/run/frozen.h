// Owns the frozen learners beside the policy: a full training's KL reference, and the teacher of on-policy
// distillation.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "learner/learner.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run_plan.h"

namespace qrl::train {

/// RL's first weights in the learner's forward format.
struct Reference {
  /// Reads the cold start's weights from its checkpoint, or without a cold start the policy's. `profile`: the
  /// sampler's, or null. Collective.
  Reference(const RunContext& run, const RunState& state, const std::filesystem::path& cold_start,
            std::shared_ptr<const model::Int8Profile> profile);

  std::optional<model::Snapshot> snapshot;  ///< of a quantized forward pass
  learner::Learner learner;
};

struct Teacher {
  /// Loads algorithm.teacher.path, which scores the samples, optionally in low bits. Throws an input error if its
  /// tokenizer differs from the policy's or it has too few positions.
  Teacher(const config::Recipe& recipe, const Policy& policy, dist::Collectives& world);

  Policy model;
  model::Snapshot snapshot;  ///< of a low-bit forward pass
  learner::Learner learner;
};

}  // namespace qrl::train
