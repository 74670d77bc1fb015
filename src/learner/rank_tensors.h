// Owns how ranks exchange tensors wherever these are: through host memory, or from GPU to GPU. Knows nothing of what
// they hold.
#pragma once

#include <memory>
#include <span>

#include "dist/collectives.h"
#include "learner/torch.h"

namespace qrl::learner {

/// Implements dist::Collectives for contiguous tensors on one device: the same contract, and the same parts (of
/// elements to sum, of bytes to copy). Sums and copies begin in the same order on every rank, and end together. Ranks
/// with GPUs of their own continue to work meanwhile.
class RankTensors {
 public:
  virtual ~RankTensors() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins an all_reduce_sum, or with `parts` a reduce_scatter_sum, of what the device's work so far leaves. `values`
  /// are not to be touched before end_sums.
  virtual void begin_sum(const torch::Tensor& f32_values, std::span<const dist::Part> parts) = 0;
  virtual void end_sums() = 0;
  /// Returns whether a sum may begin in a backward pass: not if that runs in another thread than MPI's.
  virtual bool sums_during_backward() const = 0;
  /// Begins an all_gather of what the device's work so far leaves. `values` are neither to be read nor written before
  /// end_copies.
  virtual void begin_copies(const torch::Tensor& values, std::span<const dist::Part> byte_parts) = 0;
  virtual void end_copies() = 0;
  /// Returns whether copies travel while the device works. If not, beginning them early saves nothing.
  virtual bool copies_beside_work() const = 0;
  virtual void broadcast(const torch::Tensor& values, int root) = 0;
};

/// Makes ranks that use `world`, which must outlive them. Tensors outside host memory are copied there and back. A sum
/// or copy is complete when its call returns.
std::unique_ptr<RankTensors> ranks_through_host(dist::Collectives& world, const torch::Device& device = torch::kCPU);

/// Makes the ranks for tensors on `device`: NCCL (nccl.h) if every rank has a GPU of its own, else host memory. Warns
/// if ranks share a GPU. Collective.
std::unique_ptr<RankTensors> ranks_on(const torch::Device& device, dist::Collectives& world);

}  // namespace qrl::learner
