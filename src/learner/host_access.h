// Owns how masters, moments and gradients are read and written by name in host memory, wherever the flat buffers are.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "learner/flat_buffers.h"
#include "model/weights.h"

namespace qrl::learner {

/// Of a rank's own tensors, and of all gradients. Where `has_copies`, host memory holds copies of what is read, even of
/// buffers that are there, so that this way is the same on every device. Layout and buffers outlive this.
class HostAccess {
 public:
  /// staging_bytes: at most, of staged_read's buffer.
  HostAccess(const ParameterLayout& layout, FlatBuffers& flat, bool has_copies, std::size_t staging_bytes)
      : layout_(layout), flat_(flat), has_copies_(has_copies), staging_bytes_(staging_bytes) {}

  /// By name, moments as "exp_avg.NAME" and, where there is one, "exp_avg_sq.NAME". Copies are made by the call and
  /// last until its next. For tests; what a run asks for goes a chunk at a time.
  model::WeightViews masters() const;
  model::WeightViews moments() const;
  model::WeightViews gradients() const;
  /// The same masters and moments where they lie; and how a file's writer reads them: through one staging buffer,
  /// pinned where there is a GPU, which is made by the first read and stays. Without copies there is no such way.
  model::WeightViews masters_in_place() const;
  model::WeightViews moments_in_place() const;
  state::StagedRead staged_read() const;
  /// This rank's master of that name in host memory; empty where it is another rank's.
  base::Buffer master(const std::string& name) const;

  // After each of these the forward pass needs Parameters::refresh.

  /// Has each master and moment written, masters first: fill(name, to) writes all of a tensor to host memory. With
  /// copies that is one tensor's, from where it goes on.
  void fill(const std::function<void(const std::string& name, const base::View& to)>& fill);
  /// Has masters changed, a tensor at a time, those that `chosen` names.
  void change_masters(const std::function<bool(const std::string& name)>& chosen,
                      const std::function<void(const std::string& name, std::span<float> values)>& change);
  /// Take masters and moments over from views of the same names and shapes, an input error where they are not; these
  /// may be the copies that masters() and moments() made.
  void restore_masters(const model::WeightViews& masters);
  void restore_moments(const model::WeightViews& moments);

  /// Frees their memory: no update may follow.
  void free_moments();

 private:
  /// Made when first asked for.
  struct Copies {
    Tensor masters, gradients, exp_avg, exp_avg_sq;
  };

  /// The buffer itself, or its copy, brought up to it or as it is.
  const Tensor& on_host(const Tensor& values, Tensor& copy, bool is_read) const;
  model::WeightViews master_views(const Tensor& masters) const;
  model::WeightViews moment_views(const Tensor& exp_avg, const Tensor& exp_avg_sq) const;

  const ParameterLayout& layout_;
  FlatBuffers& flat_;
  bool has_copies_;
  std::size_t staging_bytes_;
  mutable Copies copies_;
  mutable Tensor staging_;
};

}  // namespace qrl::learner
