#include "train/step/guards.h"

#include "base/error.h"
#include "base/log.h"

namespace qrl::train {

void guard_finite(const learner::UpdateReport& report, const config::Recipe& recipe, RunState& state) {
  if (report.finite) {
    state.non_finite_streak = 0;
    return;
  }
  base::log_warning("update skipped on all ranks: " + report.non_finite + " is not finite");
  if (++state.non_finite_streak >= recipe.trainer.max_non_finite_steps) {
    throw base::Error(
        base::ErrorKind::guard, "training", "finite gradients",
        report.non_finite + " not finite in " + std::to_string(state.non_finite_streak) + " updates in a row",
        "lower optim.lr, or raise trainer.max_non_finite_steps");
  }
}

}  // namespace qrl::train
