#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "dist/collectives.h"
#include "learner/options.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/weights/parameters.h"

namespace qrl::learner {

/// Sums fp32 gradients over ranks. Every rank gets all sums; when sharded, only a tensor's owner gets its sum. Before a
/// sum, the gradient is rotated back (quantized.h). The sum of a layer's gradients may begin as soon as the last
/// backward pass has left the layer. The order is fixed: layers from last to first, then all other tensors. Ranks may
/// begin a sum at different times.
class GradientSums {
 public:
  GradientSums(const Parameters& parameters, RankTensors& ranks) : parameters_(parameters), ranks_(ranks) {}

  /// Returns a ForwardOptions::layer_done that begins the sum of a layer's gradients. Returns an empty function if
  /// end() begins all sums.
  std::function<void(std::size_t layer)> from_backward();
  bool begun() const { return num_begun_ > 0; }
  /// Rotates the gradients again if they were rotated back, because a backward pass adds rotated terms. Call it before
  /// each backward pass.
  void gather();
  void rotate_back();
  /// Resets the rotation state. Call it after gradients were zeroed.
  void restart() { is_rotated_ = was_rotated_back_ = false; }
  /// Begins the remaining sums and waits for all. Collective.
  void end();

 private:
  void rotate(std::size_t layer);
  void begin_layer(std::size_t layer);
  void begin(const GradientRange& range);

  const Parameters& parameters_;
  RankTensors& ranks_;
  std::size_t num_begun_ = 0;  // number of layers, counted from the last, whose sums have begun
  // Whether the gradients whose sums have not begun are rotated, or were rotated back. Both false: zero gradients.
  bool is_rotated_ = false, was_rotated_back_ = false;
};

/// Holds ‖gradients‖², and the name of the first tensor with a non-finite gradient, or "". Both are equal on every
/// rank.
struct GradientNorm {
  double squared = 0;
  std::string non_finite;
};
/// Sums with ops::sum_of_squares. With torch_ops, sums on the device in fp64 instead. Collective when sharded.
GradientNorm gradient_norm(const Parameters& parameters, dist::Collectives& world);

struct OptimizerStep {
  double lr = 0;
  std::int64_t num_updates = 0;  ///< updates before this one
  double gradient_scale = 1;
};

/// Updates the weights with AdamW (formula: ops::AdamW). If optim.name is muon, updates the layers' matrices with Muon
/// instead. Zeroes gradients and refreshes the forward pass's copies. Collective.
void take_step(Parameters& parameters, const OptimizerOptions& optim, const OptimizerStep& step, RankTensors& ranks);

void clear_gradients(Parameters& parameters);

class Optimizer {
 public:
  /// Throws an input error if the schedule is not constant and total_updates is 0.
  Optimizer(const OptimizerOptions& options, std::int64_t total_updates);

  double lr() const;  ///< learning rate of the next update
  std::int64_t num_updates() const { return num_updates_; }
  /// Clips gradients, whose norm is `gradient_norm`, and calls take_step. Returns after the device has finished.
  /// Collective.
  void step(Parameters& parameters, double gradient_norm, RankTensors& ranks);

  /// Sets options, which must have the same algorithm, and resets the update count to 0. Moments do not change.
  void reset(const OptimizerOptions& options, std::int64_t total_updates);
  void set_num_updates(std::int64_t num_updates) { num_updates_ = num_updates; }

 private:
  OptimizerOptions options_;
  std::int64_t total_updates_ = 0;
  std::int64_t num_updates_ = 0;
};

/// Returns the learning rate after `num_updates` applied updates. In a warm-up of W updates, update k (counted from 1)
/// has k/W of the peak. W is lr_warmup_ratio · total_updates, rounded, or lr_warmup_steps without a ratio. Then the
/// rate is constant, or falls from the peak to 0 at total_updates, linearly or as ½(1 + cos πx).
double learning_rate(const OptimizerOptions& optim, std::int64_t num_updates, std::int64_t total_updates);

}  // namespace qrl::learner
