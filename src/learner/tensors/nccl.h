#pragma once

#include <memory>
#include <string>

#include "learner/tensors/rank_tensors.h"

namespace qrl::learner {

/// Makes ranks that use NCCL, from GPU to GPU, on `device`, which no other rank may use. `world` provides the ranks and
/// the time limit, and must outlive the result. Sums are fp32, in NCCL's order. Results are equal on all ranks and in
/// every run, but depend on topology and differ from host memory's. Sums and copies run on their own stream,
/// concurrently with the device's later work. A wait beyond the limit ends the job. `library`: a file name for the
/// dynamic loader. Throws input errors if the library is missing or fails. Collective.
std::unique_ptr<RankTensors> ranks_by_nccl(dist::Collectives& world, const torch::Device& device,
                                           const std::string& library);

}  // namespace qrl::learner
