// Owns reading and writing masters, moments and gradients by name, on any device.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "learner/flat_buffers.h"
#include "model/weights.h"

namespace qrl::learner {

/// Covers a rank's own tensors and all gradients. Layout and buffers must outlive it.
class NamedState {
 public:
  /// is_staged: host copies pass through a buffer of at most staging_bytes, even from host memory, so that all devices
  /// share one path.
  NamedState(const ParameterLayout& layout, FlatBuffers& flat, bool is_staged, std::size_t staging_bytes)
      : layout_(layout), flat_(flat), is_staged_(is_staged), staging_bytes_(staging_bytes) {}

  /// Returns views of each tensor in place. If staged, views claim to be on a GPU, so that a reader without staged_read
  /// fails on every machine. Moments are "exp_avg.NAME" and, if any, "exp_avg_sq.NAME".
  model::WeightViews masters() const;
  model::WeightViews moments() const;
  model::WeightViews gradients() const;
  /// Returns a reader of masters and moments for a file's writer; null unless staged. The first read allocates its one
  /// buffer, pinned if there is a GPU.
  state::StagedRead staged_read() const;
  base::Buffer master(const std::string& name) const;

  /// Calls fill(name, to) for each master, then each moment, to write the whole tensor to host memory, staged or in
  /// place. Call Parameters::refresh afterwards.
  void fill(const std::function<void(const std::string& name, const base::View& to)>& fill);
  /// Changes the masters that `chosen` names in host memory, a tensor at a time. Call Parameters::refresh afterwards.
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
