#pragma once

#include "train/checkpoint/checkpoint.h"

namespace qrl::train {

/// Trains from state.sft_step to sft.steps on demonstrations or rows of files, and commits sft_<steps>. Only the first
/// rank trains, with all threads of its machine, so that results do not depend on the number of ranks. The others wait,
/// and receive `state` at the end. `resume_from`: a cold-start checkpoint. Collective.
void run_cold_start(const RunContext& run, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                    const std::optional<std::filesystem::path>& resume_from);

}  // namespace qrl::train
