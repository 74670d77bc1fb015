#pragma once

#include <memory>

#include "dist/collectives.h"
#include "learner/engine/forward_engine.h"

namespace qrl::learner {

/// Returns the engine that options.device selects; cuda is the GPU with this rank's number on its machine, round-robin.
/// Throws an input error without such a GPU.
std::unique_ptr<ForwardEngine> choose_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                             const dist::Collectives& world);

}  // namespace qrl::learner
