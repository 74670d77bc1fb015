// Owns flat fp32 buffers of masters, gradients and moments, in ParameterLayout's order.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/buffer.h"
#include "learner/forward/layers.h"
#include "learner/weights/parameter_layout.h"
#include "model/weights.h"

namespace qrl::learner {

struct FlatBuffers {
  /// Makes zeroed buffers. Without `trainable`, gradients and moments are undefined.
  FlatBuffers(const ParameterLayout& layout, bool trainable, const torch::Device& device);

  void free_moments() { exp_avg = exp_avg_sq = Tensor(); }
  bool trainable() const { return gradients.defined(); }
  Tensor master(const Placement& of) const { return masters.narrow(0, of.owned_offset, of.spec.shape.numel()); }
  Tensor gradient(const Placement& of) const { return gradients.narrow(0, of.offset, of.spec.shape.numel()); }

  Tensor masters, gradients, exp_avg;
  Tensor exp_avg_sq;  ///< second moments; none for the first layout.num_muons() elements, which Muon updates
};

/// Returns a view of contiguous fp32 or bf16 values.
base::View view_of(const Tensor& values, const base::Shape& shape);

/// Accesses a rank's masters and moments, and all gradients, by name. Layout and buffers must outlive this object.
class NamedState {
 public:
  /// With is_staged, the host must read tensors through staged_read, even if the tensors are in host memory. The buffer
  /// of staged_read has at most staging_bytes.
  NamedState(const ParameterLayout& layout, FlatBuffers& flat, bool is_staged, std::size_t staging_bytes)
      : layout_(layout), flat_(flat), is_staged_(is_staged), staging_bytes_(staging_bytes) {}

  /// Return views of the tensors in place. Staged views claim to be on a GPU, so that reading without staged_read
  /// fails. Moments are named "exp_avg.NAME" and "exp_avg_sq.NAME".
  model::WeightViews masters() const;
  model::WeightViews moments() const;
  model::WeightViews gradients() const;
  /// Returns the function with which a file's writer reads masters and moments; empty unless staged. The first read
  /// allocates the buffer, pinned for a GPU.
  state::StagedRead staged_read() const;
  base::Buffer master(const std::string& name) const;

  /// Calls fill(name, to) for each master, then each moment. `fill` writes the whole tensor to `to`, in host memory.
  /// Call Parameters::refresh afterwards.
  void fill(const std::function<void(const std::string& name, const base::View& to)>& fill);
  /// Changes the masters selected by `chosen`, one tensor at a time in host memory. Call Parameters::refresh
  /// afterwards.
  void change_masters(const std::function<bool(const std::string& name)>& chosen,
                      const std::function<void(const std::string& name, std::span<float> values)>& change);

 private:
  base::View view(const Tensor& values, const base::Shape& shape) const;

  const ParameterLayout& layout_;
  FlatBuffers& flat_;
  bool is_staged_;
  std::size_t staging_bytes_;
  mutable Tensor staging_;
};

}  // namespace qrl::learner
