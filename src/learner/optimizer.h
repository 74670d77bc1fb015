// Owns what ends a mini-batch: gradients summed over ranks, their norm, and the optimizer's step on this rank's
// tensors. Knows neither loss nor forward pass.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "config/recipe.h"
#include "dist/collectives.h"
#include "learner/parameters.h"
#include "learner/rank_tensors.h"

namespace qrl::learner {

/// Sums gradients over ranks: all of them on every rank, or each tensor's on its owner. First rotates back, in fp32,
/// the gradients that a mini-batch gathers rotated (quantized.h). A layer's sums may begin when the mini-batch's last
/// backward pass has left that layer. Their order is the same in either case: layers from last to first, then all other
/// tensors. Ranks therefore need not agree on when a sum begins.
class GradientSums {
 public:
  /// Both must outlive it.
  GradientSums(const Parameters& parameters, RankTensors& ranks) : parameters_(parameters), ranks_(ranks) {}

  /// Returns ForwardOptions::layer_done, which the backward pass calls. Empty if sums wait for `end`.
  std::function<void(std::size_t layer)> from_backward();
  bool begun() const { return num_begun_ > 0; }
  /// Has gradients as a backward pass adds to them: before each of a mini-batch.
  void gather();
  /// Rotates back what is still rotated: gradients are then those of the weights.
  void rotate_back();
  /// Forgets what was gathered, after gradients were cleared.
  void restart() { is_rotated_ = was_rotated_back_ = false; }
  /// Begins the rest and waits for all. Collective.
  void end();

 private:
  void rotate(std::size_t layer);
  void begin_layer(std::size_t layer);
  void begin(const GradientRange& range);

  const Parameters& parameters_;
  RankTensors& ranks_;
  std::size_t num_begun_ = 0;                           // layers, from the last
  bool is_rotated_ = false, was_rotated_back_ = false;  // of those that are not begun: now; and what was gathered
};

/// Holds ‖gradients‖², the same on every rank, and the first tensor with a gradient that is not finite, or nothing. A
/// tensor's square is ops::sum_of_squares, or with torch_ops a sum in fp64, all in one launch of a device's kernel.
/// Their sum is in fp64. Collective when sharded.
struct GradientNorm {
  double squared = 0;
  std::string non_finite;
};
GradientNorm gradient_norm(const Parameters& parameters, dist::Collectives& world);

struct OptimizerStep {
  double lr = 0;
  std::int64_t num_updates = 0;  ///< before this one
  double gradient_scale = 1;     ///< on gradients, before everything: clipping
};

/// Updates by AdamW (ops::AdamW's formula) or, for the layers' matrices, Muon. Clears gradients and refreshes the
/// forward pass's copies of the masters. If sharded over GPUs, a layer's copies travel while the optimizer works on the
/// next layers; all have arrived at the end. Collective.
void take_step(Parameters& parameters, const config::OptimRecipe& optim, const OptimizerStep& step, RankTensors& ranks);

void clear_gradients(Parameters& parameters);

}  // namespace qrl::learner
