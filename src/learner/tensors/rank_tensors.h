#pragma once

#include <memory>
#include <span>
#include <string>

#include "dist/collectives.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Exchanges tensors between ranks under the contract of dist::Collectives. Tensors are contiguous, on one device.
/// Parts and the order of calls are the same on every rank.
class RankTensors {
 public:
  virtual ~RankTensors() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins a reduce_scatter_sum, or an all_reduce_sum if `parts` is empty. The sum runs after the work that the device
  /// has queued so far. `f32_values` must not be used before end_sums.
  virtual void begin_sum(const torch::Tensor& f32_values, std::span<const dist::Part> parts) = 0;
  virtual void end_sums() = 0;
  /// Returns whether a sum may begin during a backward pass, on autograd's thread.
  virtual bool sums_during_backward() const = 0;
  /// Begins an all_gather. The copies run after the work that the device has queued so far. `values` must not be used
  /// before end_copies.
  virtual void begin_copies(const torch::Tensor& values, std::span<const dist::Part> byte_parts) = 0;
  virtual void end_copies() = 0;
  /// Returns whether copies run while the device computes.
  virtual bool copies_beside_work() const = 0;
  virtual void broadcast(const torch::Tensor& values, int root) = 0;
};

/// Makes RankTensors that use `world`, which must outlive the result. A GPU's tensors travel through
/// pinned host memory, 16 MiB at a time. Calls return when complete.
std::unique_ptr<RankTensors> ranks_through_host(dist::Collectives& world, const torch::Device& device = torch::kCPU);

/// Makes RankTensors that exchange data between GPUs with NCCL. No other rank may use `device`. `world` provides the
/// ranks and the time limit, and must outlive the result. Sums are fp32, in NCCL's order. Results are equal on all
/// ranks and in every run. They depend on the topology and differ from the results of ranks_through_host. Sums and
/// copies run concurrently with the device's later work. A wait beyond the time limit ends the job. `library` is a file
/// name for the dynamic loader. Throws input errors if the library is missing or fails. Collective.
std::unique_ptr<RankTensors> ranks_by_nccl(dist::Collectives& world, const torch::Device& device,
                                           const std::string& library);

}  // namespace qrl::learner
