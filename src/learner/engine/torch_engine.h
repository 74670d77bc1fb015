#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "learner/engine/forward_engine.h"

namespace qrl::cuda {
class TrainingKernels;
}

namespace qrl::learner {

/// Measures device memory: the bytes in tensors, and the bytes left for activations.
struct DeviceRoom {
  std::function<std::int64_t()> used, left;
};

struct TorchPlace {
  torch::Device device = torch::kCPU;
  const cuda::TrainingKernels* kernels = nullptr;  ///< must outlive the engine; null: a GPU engine makes its own
  std::size_t staging_bytes = kStagingBytes;
  DeviceRoom room = {};  ///< empty: gpu_bytes_in_tensors and gpu_bytes_left
};

/// Throws an input error for features that only the CPU has: experts and backward int8.
void check_torch_engine(const model::ModelConfig& config, const LearnerOptions& options);

/// Throws an input error for a model that cuda/ does not compute (model::missing_on_gpu).
void require_gpu_kernels(const model::ModelConfig& config);

/// Makes an engine that uses LibTorch's operations and the device's kernels. With low_bit and `bitwise`, the decoder
/// runs the forward pass on its device. Throws like check_torch_engine.
std::unique_ptr<ForwardEngine> make_torch_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                                 const TorchPlace& place);

}  // namespace qrl::learner
