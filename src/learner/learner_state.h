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

/// Masters, moments and gradients of a learner (Learner::state), which outlives this.
class LearnerState {
 public:
  explicit LearnerState(LearnerParts& parts) : parts_(parts) {}

  /// The fp32 masters that this rank keeps by name, where they lie, as views that stay valid for the learner's life.
  model::WeightViews masters() const;
  /// The same of what an exact resume needs beside the masters ("exp_avg.<tensor>", Muon's momentum too, and
  /// "exp_avg_sq.<tensor>", not of Muon's matrices); nothing when not trainable.
  model::WeightViews moments() const;
  /// The same of the gradients accumulated so far (before `update`), all of them: for tests.
  model::WeightViews gradients() const;
  /// How a file's writer reads masters and moments (NamedState::staged_read).
  state::StagedRead staged_read() const;

  /// This rank's fp32 master of that name, or with adapters the base's weight; empty where it is another rank's.
  base::Buffer master(const std::string& name) const;
  /// Everybody's masters, read by all ranks in the same order; with adapters merged into the base (merged_weights).
  /// Collective when sharded.
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
