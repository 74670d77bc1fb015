// Owns when and how a run evaluates its held-out prompts with its own sampler.
#pragma once

#include <cstdint>
#include <optional>

#include "train/metrics/step_phases.h"
#include "train/policy/sampler.h"
#include "train/run_plan.h"

namespace qrl::train {

class HeldOutEvaluation {
 public:
  HeldOutEvaluation(const RunContext& run, Sampler& sampler) : run_(run), sampler_(sampler) {}

  bool due_before_training() const;
  bool due_after(std::int64_t step) const;
  /// Returns scores of the published weights, and writes validation/step_N.jsonl (eval.dump). Returns nothing if any
  /// rank got a stop request. Collective.
  std::optional<Metrics> run(std::int64_t step, PhaseSeconds& seconds);

 private:
  const RunContext& run_;
  Sampler& sampler_;
};

}  // namespace qrl::train
