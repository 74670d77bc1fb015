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

/// Sums gradients over ranks in fp32, on every rank or each tensor on its owner, after rotating back rotated gradients
/// (quantized.h). A layer's sums may begin when the last backward pass has left the layer. The order is fixed: layers
/// from last to first, then all other tensors. Ranks need not agree on when a sum begins.
class GradientSums {
 public:
  GradientSums(const Parameters& parameters, RankTensors& ranks) : parameters_(parameters), ranks_(ranks) {}

  /// Returns a ForwardOptions::layer_done that begins a layer's sum; empty if all sums begin in `end`.
  std::function<void(std::size_t layer)> from_backward();
  bool begun() const { return num_begun_ > 0; }
  /// Rotates gradients, so that a backward pass can add to them. Call it before each.
  void gather();
  void rotate_back();
  /// Resets the state. Call after gradients were zeroed.
  void restart() { is_rotated_ = was_rotated_back_ = false; }
  /// Begins the remaining sums and waits for all. Collective.
  void end();

 private:
  void rotate(std::size_t layer);
  void begin_layer(std::size_t layer);
  void begin(const GradientRange& range);

  const Parameters& parameters_;
  RankTensors& ranks_;
  std::size_t num_begun_ = 0;  // number of layers whose sums have begun, from the last
  bool is_rotated_ = false,
       was_rotated_back_ = false;  // whether gradients whose sums have not begun are rotated; whether they were
};

/// Holds ‖gradients‖², equal on every rank, and the name of the first non-finite tensor, if any. A tensor's square is
/// ops::sum_of_squares; with torch_ops, one kernel launch sums all squares in fp64. Collective when sharded.
struct GradientNorm {
  double squared = 0;
  std::string non_finite;
};
GradientNorm gradient_norm(const Parameters& parameters, dist::Collectives& world);

struct OptimizerStep {
  double lr = 0;
  std::int64_t num_updates = 0;  ///< before this one
  double gradient_scale = 1;     ///< on gradients: clipping
};

/// Updates by AdamW (ops::AdamW's formula) or, for the layers' matrices, Muon. Zeroes gradients and refreshes the
/// forward pass's copies. When sharded over GPUs, a layer's copies travel while the next layers are updated.
/// Collective.
void take_step(Parameters& parameters, const OptimizerOptions& optim, const OptimizerStep& step, RankTensors& ranks);

void clear_gradients(Parameters& parameters);

/// Holds an optimizer's options and counts its updates, on which the learning rate depends.
class Optimizer {
 public:
  /// Throws an input error for a schedule that ends without total_updates.
  Optimizer(const OptimizerOptions& options, std::int64_t total_updates);

  double lr() const;  ///< of the next update
  std::int64_t num_updates() const { return num_updates_; }
  /// Clips gradients that have this norm and applies them (take_step). Returns when a device is done. Collective.
  void step(Parameters& parameters, double gradient_norm, RankTensors& ranks);

  /// Restarts with options of the same kind and no updates. Moments stay.
  void reset(const OptimizerOptions& options, std::int64_t total_updates);
  void set_num_updates(std::int64_t num_updates) { num_updates_ = num_updates; }

 private:
  OptimizerOptions options_;
  std::int64_t total_updates_ = 0;
  std::int64_t num_updates_ = 0;
};

/// Returns the learning rate after `num_updates` applied updates. Warm-up: update k of W (counted from 1) has k/W of
/// the peak; W is lr_warmup_steps, or lr_warmup_ratio of total_updates, rounded. Then the rate is constant, or falls
/// from the peak to 0 at total_updates, linearly or as ½(1 + cos πx).
double learning_rate(const OptimizerOptions& optim, std::int64_t num_updates, std::int64_t total_updates);

}  // namespace qrl::learner
