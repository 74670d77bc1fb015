// Owns the supervised cold start, from demonstrations or rows to a committed checkpoint.
#pragma once

#include "train/checkpoint/checkpointer.h"

namespace qrl::train {

/// Trains from state.sft_step to sft.steps on demonstrations or rows of files, and commits sft_<steps>. Runs on the
/// first rank alone with all its machine's threads: the number of ranks changes no bit. `resume_from`: the cold-start
/// checkpoint to resume from.
void make_cold_start(const RunContext& run, RunState& state, MetricsFile& sft_metrics, Checkpointer& checkpointer,
                     const std::optional<std::filesystem::path>& resume_from);

/// Waits on the other ranks, with a broadcast at every step, so that a long cold start does not look hung.
void await_cold_start(dist::Collectives& world);

}  // namespace qrl::train
