// Owns the choice of the checkpoint that a run resumes from. Knows nothing of its use.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "config/reader.h"
#include "dist/collectives.h"
#include "train/checkpoint.h"
#include "train/gpu_plan.h"
#include "train/run_folder.h"

namespace qrl::train {

/// Holds the point that a run resumes from.
struct ResumePoint {
  std::optional<std::filesystem::path> checkpoint;  ///< none: a fresh run
  RunState state;
  Metrics unfinished_row;  ///< with state.evaluation_due; on the first rank alone
  /// Keys whose values the checkpoint's run had otherwise, and data whose contents were others; with allow_change, on
  /// the first rank alone.
  std::vector<config::KeyChange> changes;
  /// Holds what the checkpoint's run had for keys that are at `auto` here; all 0: nothing to take over.
  AutoSettings settings;
};

/// Returns the finished cold start's checkpoint in a run folder.
std::filesystem::path cold_start_checkpoint(const config::Recipe& recipe);

/// Returns the checkpoint that trainer.resume_mode selects, verified and checked against the recipe and its inputs.
/// Damaged checkpoints are set aside, and so are rows and rollouts of an earlier run that this one does not resume. If
/// the recipe's KL term also needs the finished cold start, that is verified, and copied into the run folder if the
/// checkpoint is elsewhere. A fresh run with sft.from begins at a copy of that cold start in its own folder.
/// `allow_change`: values that are not fixed for a run may differ from the checkpoint's. `folder`: null on all ranks
/// but the first, which selects for all. Collective. Throws input errors.
ResumePoint find_resume_point(const config::LoadedRecipe& loaded, const Inputs& inputs, const RunFolder* folder,
                              bool allow_change, dist::Collectives& world);

/// Returns what the checkpoint to resume from has for keys that are at `auto` here; nothing without a checkpoint.
/// Changes nothing.
std::optional<AutoSettings> settings_of_checkpoint(const config::Recipe& recipe);

/// Describes what a start would do about checkpoints: `goes on after step 30 of RUN/checkpoints/step_30`. Throws the
/// input error by which the start would refuse, and changes nothing. The recipe's numbers of steps must be known. Calls
/// `inputs` only when a checkpoint exists, since it may read all weights.
std::string describe_resume(const config::Recipe& recipe, const std::function<Inputs()>& inputs, bool allow_change);

/// Returns whether a start resumes from a checkpoint or takes a cold start (sft.from). Changes nothing.
bool finds_checkpoint(const config::Recipe& recipe);

}  // namespace qrl::train
