// Builds a learner with LibTorch's operations for any test: on the CPU if no GPU exists, with or without emulated
// kernels.
#pragma once

#include <memory>

#include "learner/engine/forward_engine.h"
#include "learner/engine/torch_engine.h"
#include "learner/learner.h"
#include "learner/tensors/cuda_library.h"

namespace qrl::test {

struct LearnerOptions : learner::LearnerOptions {
  LearnerOptions(const learner::LearnerOptions& options = {}) : learner::LearnerOptions(options) {}
  bool torch_ops = false;  ///< whether to run LibTorch's operations on `place`, never with device cuda
  torch::Device place = torch::kCPU;
  learner::DeviceRoom room = {};
  const cuda::TrainingKernels* kernels = nullptr;
  std::size_t staging_bytes = learner::kStagingBytes;
};

inline std::unique_ptr<learner::ForwardEngine> make_engine(const model::ModelConfig& config,
                                                           const LearnerOptions& options,
                                                           const dist::Collectives& world) {
  QRL_INVARIANT(!options.torch_ops || options.device == base::Device::cpu, "a test's learner",
                "LibTorch's operations on the CPU, or a GPU", "both");
  if (options.torch_ops)
    return learner::make_torch_engine(config, options,
                                      {options.place, options.kernels, options.staging_bytes, options.room});
  if (options.device == base::Device::cpu) return learner::choose_engine(config, options, world);
  const auto number = static_cast<torch::DeviceIndex>(learner::load_cuda_library(world.local_rank()));
  return learner::make_torch_engine(config, options,
                                    {torch::Device(torch::kCUDA, number), nullptr, options.staging_bytes, {}});
}

/// Calls `make`, which constructs what the case needs on a GPU. Returns false and marks the case as skipped if the GPU
/// or a library is missing. Any other error fails the case.
template <class Make>
bool has_gpu(const Make& make) {
  try {
    make();
    return true;
  } catch (const base::Error& error) {
    if (error.kind() != base::ErrorKind::input) throw;
    skip(error.what());
    return false;
  }
}

class Learner : public learner::Learner {
 public:
  Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
          dist::Collectives& world)
      : learner::Learner(config, initial, options, world, make_engine(config, options, world)) {}
};

}  // namespace qrl::test
