#pragma once

#include "train/checkpoint/checkpoint.h"

namespace qrl::train {

/// Trains from state.sft_step to sft.steps on demonstrations or rows of files, and commits sft_<steps>. Runs on the
/// first rank alone with all threads of its machine, so that the number of ranks does not matter. `resume_from`: the
/// cold-start checkpoint to resume from.
void make_cold_start(const RunContext& run, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                     const std::optional<std::filesystem::path>& resume_from);

/// Waits on the other ranks, with a broadcast every step, so that the ranks' time limit does not end the job.
void await_cold_start(dist::Collectives& world);

}  // namespace qrl::train
