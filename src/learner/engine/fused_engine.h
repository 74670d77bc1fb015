// Owns the forward pass on the CPU, with the loops of src/ops; with `bitwise`, the decoder's.
#pragma once

#include <memory>

#include "learner/engine/forward_engine.h"

namespace qrl::learner {

std::unique_ptr<ForwardEngine> make_fused_engine(const model::ModelConfig& config, const LearnerOptions& options);

}  // namespace qrl::learner
