// Owns how a learner's memory is seen by name from outside: checkpoints, exports and tests read it here, and restore
// it. Free of LibTorch, as learner.h is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/buffer.h"
#include "model/weights.h"

namespace qrl::learner {

struct LearnerParts;  // learner_parts.h

/// Gives access to masters, moments and gradients of a learner (Learner::state), which outlives this.
class LearnerState {
 public:
  explicit LearnerState(LearnerParts& parts) : parts_(parts) {}

  /// Returns the fp32 masters that this rank keeps, by name, as views in place that stay valid for the learner's life.
  model::WeightViews masters() const;
  /// Returns the other tensors of an exact resume in the same way: "exp_avg.<tensor>" (Muon's momentum included) and
  /// "exp_avg_sq.<tensor>" (without Muon's matrices). Empty if not trainable.
  model::WeightViews moments() const;
  /// Returns the gradients accumulated so far (before `update`) in the same way, all of them: for tests.
  model::WeightViews gradients() const;
  /// Returns a reader of masters and moments for a file's writer (NamedState::staged_read).
  state::StagedRead staged_read() const;

  /// This rank's fp32 master of that name, or with adapters the base's weight; empty where it is another rank's.
  base::Buffer master(const std::string& name) const;
  /// Returns the masters of all ranks, read by all ranks in the same order; with adapters merged into the base
  /// (merged_weights). Collective when sharded.
  model::WeightSource all_masters() const;

  /// Has masters and moments written to host memory, a tensor at a time, masters first (NamedState::fill), and sets the
  /// update count. The order is the same on every rank that is not sharded. Collective when sharded.
  void restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
               std::int64_t num_updates);
  /// Frees the memory of the moments, behind the last update and checkpoint: neither may follow.
  void free_moments();

 private:
  LearnerParts& parts_;
};

}  // namespace qrl::learner
