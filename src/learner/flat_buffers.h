// Owns the learner's memory: fp32 masters, gradients and moments, each one flat buffer in the order of ParameterLayout,
// on one device.
#pragma once

#include "base/buffer.h"
#include "learner/layers.h"
#include "learner/parameter_layout.h"

namespace qrl::learner {

struct FlatBuffers {
  /// Fills all buffers with zeros. Without `trainable` there are no gradients and no moments.
  FlatBuffers(const ParameterLayout& layout, bool trainable, const torch::Device& device);

  /// Frees the memory of the moments: no update may follow.
  void free_moments() { exp_avg = exp_avg_sq = Tensor(); }
  bool trainable() const { return gradients.defined(); }
  Tensor master(const Placement& of) const { return masters.narrow(0, of.owned_offset, of.spec.shape.numel()); }
  Tensor gradient(const Placement& of) const { return gradients.narrow(0, of.offset, of.spec.shape.numel()); }

  Tensor masters, gradients, exp_avg;
  Tensor exp_avg_sq;  ///< without the elements that are Muon's, layout.num_muons(), which come first elsewhere
};

/// Returns a view of contiguous values, fp32 or bf16, in any memory.
base::View view_of(const Tensor& values, const base::Shape& shape);

}  // namespace qrl::learner
