// Owns the end of a mini-batch: gradients summed over ranks, their norm, and the optimizer with its step on this rank's
// tensors.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "dist/collectives.h"
#include "learner/options.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/weights/parameters.h"

namespace qrl::learner {

/// Sums gradients over ranks, on every rank or each tensor's on its owner, after rotating back those gathered rotated
/// (quantized.h), in fp32. A layer's sums may begin when the last backward pass has left it. Their order never changes:
/// layers from last to first, then all other tensors. Ranks need not agree on when a sum begins.
class GradientSums {
 public:
  /// Both must outlive it.
  GradientSums(const Parameters& parameters, RankTensors& ranks) : parameters_(parameters), ranks_(ranks) {}

  /// Returns ForwardOptions::layer_done; empty if sums wait for `end`.
  std::function<void(std::size_t layer)> from_backward();
  bool begun() const { return num_begun_ > 0; }
  /// Rotates gradients for the backward pass to add to: call it before each.
  void gather();
  /// Rotates gathered gradients back to those of the weights.
  void rotate_back();
  /// Call it after gradients were cleared.
  void restart() { is_rotated_ = was_rotated_back_ = false; }
  /// Begins the remaining sums and waits for all. Collective.
  void end();

 private:
  void rotate(std::size_t layer);
  void begin_layer(std::size_t layer);
  void begin(const GradientRange& range);

  const Parameters& parameters_;
  RankTensors& ranks_;
  std::size_t num_begun_ = 0;                           // layers, from the last
  bool is_rotated_ = false, was_rotated_back_ = false;  // of gradients not begun: now; and what was gathered
};

/// Holds ‖gradients‖², the same on every rank, and the first tensor that is not finite, if any. A tensor's square is
/// ops::sum_of_squares, or with torch_ops an fp64 sum, in one kernel launch for all tensors. Their sum is in fp64.
/// Collective when sharded.
struct GradientNorm {
  double squared = 0;
  std::string non_finite;
};
GradientNorm gradient_norm(const Parameters& parameters, dist::Collectives& world);

struct OptimizerStep {
  double lr = 0;
  std::int64_t num_updates = 0;  ///< before this one
  double gradient_scale = 1;     ///< of gradients: clipping
};

/// Updates by AdamW (ops::AdamW's formula) or, for the layers' matrices, Muon. Clears gradients and refreshes the
/// forward pass's copies. If sharded over GPUs, a layer's copies travel during the next layers' update; all have
/// arrived at the end. Collective.
void take_step(Parameters& parameters, const OptimizerOptions& optim, const OptimizerStep& step, RankTensors& ranks);

void clear_gradients(Parameters& parameters);

/// Holds an optimizer's options and counts its updates, on which the learning rate depends.
class Optimizer {
 public:
  /// Throws an input error for a schedule that ends without total_updates.
  Optimizer(const OptimizerOptions& options, std::int64_t total_updates);

  double lr() const;  ///< of the next update
  std::int64_t num_updates() const { return num_updates_; }
  /// Clips gradients of that norm and applies them (take_step). Returns when a device is done. Collective.
  void step(Parameters& parameters, double gradient_norm, RankTensors& ranks);

  /// Restarts with options of the same kind and no updates. Moments stay.
  void reset(const OptimizerOptions& options, std::int64_t total_updates);
  void set_num_updates(std::int64_t num_updates) { num_updates_ = num_updates; }

 private:
  OptimizerOptions options_;
  std::int64_t total_updates_ = 0;
  std::int64_t num_updates_ = 0;
};

}  // namespace qrl::learner
