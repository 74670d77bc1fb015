#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "config/printer.h"
#include "dist/collectives.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/run_folder.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

struct ResumePoint {
  std::optional<std::filesystem::path> checkpoint;  ///< none: a fresh run
  RunState state;
  Metrics unfinished_row;  ///< metrics of state.step so far, if state.evaluation_due; first rank only
  /// Allowed differences in keys and data between the checkpoint's run and this one; first rank only.
  std::vector<config::KeyChange> changes;
};

std::filesystem::path cold_start_checkpoint(const Recipe& recipe);

/// Returns the checkpoint selected by trainer.resume_mode, verified and checked against recipe and inputs. Renames
/// damaged checkpoints. Moves an earlier run's rows and rollouts aside, unless the run continues in its own folder. If
/// the KL term or the adapters need the finished cold start, verifies it and, where missing, copies it into the run
/// folder. A fresh run with sft.from begins at a copy of that cold start. If `allow_change` is set, keys that are not
/// fixed may differ. `folder`: null except on the first rank, which selects for all. Collective. Throws input errors.
ResumePoint find_resume_point(const Recipe& recipe, const Inputs& inputs, const RunFolder* folder, bool allow_change,
                              dist::Collectives& world);

/// Describes where a run would start, such as `resumes after step 30 of RUN/checkpoints/step_30`. Throws the same input
/// errors as a start. Calls `inputs` only to compare its result with a checkpoint.
std::string describe_resume(const Recipe& recipe, const std::function<Inputs()>& inputs, bool allow_change);

}  // namespace qrl::train
