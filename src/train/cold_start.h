// Owns the supervised cold start: demonstrations or rows in, a committed checkpoint out. Knows nothing of RL.
#pragma once

#include "train/checkpointer.h"

namespace qrl::train {

/// Trains from state.sft_step to sft.steps on generated demonstrations, or on the rows of files, and commits
/// sft_<steps>. Runs on the first rank alone with its machine's threads, so the bits do not depend on the number of
/// ranks. `resume_from` is the cold-start checkpoint to resume from, if any.
void make_cold_start(const RunSetup& setup, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                     const std::optional<std::filesystem::path>& resume_from);

/// Waits on the other ranks and receives a broadcast at every step, so that a long cold start does not look like a rank
/// that hangs.
void await_cold_start(dist::Collectives& world);

}  // namespace qrl::train
