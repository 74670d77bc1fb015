#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "learner/learner.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run_plan.h"

namespace qrl::train {

/// Holds the KL reference of training without adapters: the weights that RL begins with, in the learner's forward
/// format.
struct Reference {
  /// Reads the weights of the checkpoint `cold_start`; without a cold start, the policy's weights. `profile`: the
  /// sampler's int8 profile, or null. Collective.
  Reference(const RunContext& run, const RunState& state, const std::filesystem::path& cold_start,
            std::shared_ptr<const model::Int8Profile> profile);

  std::optional<model::Snapshot> snapshot;  ///< weights of a quantized forward pass
  learner::Learner learner;
};

struct Teacher {
  /// Loads the model of algorithm.teacher.path, optionally in low bits. Throws an input error if the tokenizer differs
  /// from the policy's, or if the model has too few positions.
  Teacher(const Recipe& recipe, const Policy& policy, dist::Collectives& world);

  Policy model;
  model::Snapshot snapshot;  ///< weights of a low-bit forward pass
  learner::Learner learner;
};

}  // namespace qrl::train
