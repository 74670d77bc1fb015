// Owns measuring what rollout corrections cost in a step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "dist/collectives.h"
#include "types/batch.h"

namespace qrl::app {

/// Adds to the result of a step of `step_s`: loss_s, the seconds of a GRPO loss without correction on these batches
/// (the sampler's log-probs in them), and for each correction what it takes more, as a share of the step; may be
/// below 0, which is noise. The best of several rounds, in which all take turns.
void add_correction_costs(nlohmann::ordered_json& result, std::span<const types::MicroBatch> batches,
                          const types::GlobalCounts& counts, double step_s, dist::Collectives& world);

}  // namespace qrl::app
