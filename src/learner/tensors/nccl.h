// Owns NCCL: ranks whose tensors go from GPU to GPU. Its library is loaded at the first use; LibTorch's CUDA part
// contains one.
#pragma once

#include <memory>
#include <string>

#include "learner/tensors/rank_tensors.h"

namespace qrl::learner {

/// Makes ranks that use NCCL on `device`, which no other rank may use. `world` names the ranks and the time limit, and
/// must outlive them. Sums are fp32, in NCCL's order, chosen by topology and size. Their bits are equal on all ranks
/// and each time, but differ from those of other rank counts or host memory. Sums and copies run in their own stream,
/// beside the device's later work. A wait beyond the limit ends the job. `library`: a file name for the dynamic loader.
/// Throws input errors if the library is absent or fails. Collective.
std::unique_ptr<RankTensors> ranks_by_nccl(dist::Collectives& world, const torch::Device& device,
                                           const std::string& library);

}  // namespace qrl::learner
