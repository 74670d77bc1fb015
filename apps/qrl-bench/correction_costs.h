#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "dist/collectives.h"
#include "types/batch.h"

namespace qrl::app {

/// Adds loss_s, the seconds of a GRPO loss without correction, and each correction's additional time, 0 or more, as a
/// share of `step_s`. Each is the best of several rounds.
void add_correction_costs(nlohmann::ordered_json& result, std::span<const types::MicroBatch> batches,
                          const types::GlobalCounts& counts, double step_s, dist::Collectives& world);

}  // namespace qrl::app
