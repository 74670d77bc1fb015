// Owns NCCL: ranks whose tensors go from GPU to GPU. Its library is found when it is first wanted, as LibTorch's CUDA
// part is, which brings one.
#pragma once

#include <memory>
#include <string>

#include "learner/rank_tensors.h"

namespace qrl::learner {

/// By NCCL on `device`, which is this rank's alone; `world` names the ranks and gives its time limit, and must
/// outlive it. Sums are fp32, in an order that NCCL chooses by topology and size: the same bits on every rank and each
/// time, not those of another number of ranks or of host memory. Sums and copies run in a stream of their own, beside
/// what the device does after they began; what waits for them waits no longer than the limit: then the job ends.
/// `library`: a file name for the dynamic loader. Input errors: no such library, or one that fails. Collective.
std::unique_ptr<RankTensors> ranks_by_nccl(dist::Collectives& world, const torch::Device& device,
                                           const std::string& library);

}  // namespace qrl::learner
