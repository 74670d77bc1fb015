// Owns how masters, moments and gradients are read and written by name, wherever the flat buffers are.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "learner/flat_buffers.h"
#include "model/weights.h"

namespace qrl::learner {

/// Gives access by name to a rank's own tensors and to all gradients. Layout and buffers must outlive it.
class NamedState {
 public:
  /// is_staged: data for host memory passes through a buffer of at most staging_bytes, even if the flat buffers are in
  /// host memory. The path is then the same on every device.
  NamedState(const ParameterLayout& layout, FlatBuffers& flat, bool is_staged, std::size_t staging_bytes)
      : layout_(layout), flat_(flat), is_staged_(is_staged), staging_bytes_(staging_bytes) {}

  /// Views of each tensor in place. Staged, they say that they are on a GPU even where they are in host memory, so that
  /// a reader which forgets staged_read fails on every machine. Moments are named "exp_avg.NAME" and, where there is
  /// one, "exp_avg_sq.NAME".
  model::WeightViews masters() const;
  model::WeightViews moments() const;
  model::WeightViews gradients() const;
  /// Returns a file writer's reader of masters and moments. It uses one staging buffer, pinned if there is a GPU, which
  /// the first read allocates and keeps. Null if they are not staged.
  state::StagedRead staged_read() const;
  /// This rank's master of that name in host memory; empty where it is another rank's.
  base::Buffer master(const std::string& name) const;

  /// Has each master and moment written, masters first: fill(name, to) writes all of a tensor to host memory. If
  /// staged, that is one tensor's buffer, from which it is copied. Call Parameters::refresh afterwards.
  void fill(const std::function<void(const std::string& name, const base::View& to)>& fill);
  /// Has masters changed in host memory, a tensor at a time, those that `chosen` names. Then Parameters::refresh.
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
