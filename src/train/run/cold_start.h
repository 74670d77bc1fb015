#pragma once

#include "train/checkpoint/checkpoint.h"

namespace qrl::train {

/// Trains from state.sft_step to sft.steps on demonstrations or rows of files, and commits sft_<steps>. The first rank
/// does it with all threads of its machine, so that the number of ranks does not matter; the others wait for the state.
/// `resume_from`: the cold-start checkpoint to resume from. Collective.
void run_cold_start(const RunContext& run, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                    const std::optional<std::filesystem::path>& resume_from);

}  // namespace qrl::train
