// Owns the learner's memory: masters, gradients and moments, one flat fp32 buffer each in ParameterLayout's order, on
// one device.
#pragma once

#include "base/buffer.h"
#include "learner/layers.h"
#include "learner/parameter_layout.h"

namespace qrl::learner {

struct FlatBuffers {
  /// Fills buffers with zeros. Without `trainable` there are no gradients and moments.
  FlatBuffers(const ParameterLayout& layout, bool trainable, const torch::Device& device);

  /// Frees the moments' memory: no update may follow.
  void free_moments() { exp_avg = exp_avg_sq = Tensor(); }
  bool trainable() const { return gradients.defined(); }
  Tensor master(const Placement& of) const { return masters.narrow(0, of.owned_offset, of.spec.shape.numel()); }
  Tensor gradient(const Placement& of) const { return gradients.narrow(0, of.offset, of.spec.shape.numel()); }

  Tensor masters, gradients, exp_avg;
  Tensor exp_avg_sq;  ///< without the first layout.num_muons() elements: Muon has no second moment
};

/// Returns a view of contiguous fp32 or bf16 values.
base::View view_of(const Tensor& values, const base::Shape& shape);

}  // namespace qrl::learner
