#pragma once

#include <string>

#include "dist/collectives.h"
#include "learner/options.h"

namespace qrl::learner {

/// Lets LibTorch's allocator grow its segments (expandable_segments), so that micro-batches of uneven sizes leave no
/// gaps. Does nothing if the environment has either name of the allocator's settings, PYTORCH_CUDA_ALLOC_CONF or
/// PYTORCH_ALLOC_CONF. LibTorch reads them at its first allocation on a GPU.
void prefer_expandable_segments();

/// Loads libtorch_cuda.so (libtorch_cuda_path), logs its path and version, and selects deterministic operations.
/// Selects device `number` modulo the count of visible devices, and returns the device's number. Call it on one thread,
/// before making any engine of cuda/. Throws an input error if the library, its dependencies, a driver or a GPU is
/// missing.
int load_cuda_library(int number);

/// Measures LibTorch's matmul of two 8192 × 8192 matrices: an upper bound of a learner's speed.
double measure_gpu_matmul_flops_per_s(ComputeDType dtype);

std::int64_t gpu_bytes_in_tensors(int device_number);
/// Returns the GPU memory that is not free, whoever uses it.
std::int64_t gpu_bytes_in_use(int device_number);
/// Returns how many more bytes tensors may use within kPlannedGpuShare of the GPU's memory.
std::int64_t gpu_bytes_left(int device_number);

inline constexpr double kPlannedGpuShare = 0.85;

double gpu_bytes(int device_number);
/// Returns the GPU memory of the rank that has the least, in bytes. Ranks on one GPU share its memory equally.
/// Collective.
double smallest_gpu_share(int device_number, dist::Collectives& world);
/// Computes the same without a driver. `gpu` is the unique name of this rank's GPU.
double smallest_gpu_share(const std::string& gpu, std::size_t gpu_bytes, dist::Collectives& world);

/// Collective.
bool share_gpus(int device_number, dist::Collectives& world);
/// Throws an input error if every rank has its own GPU, but NCCL is missing. Collective.
void require_nccl(dist::Collectives& world);

/// Returns why GPU `device_number` cannot be used, as "expected …, got …; …"; empty if it can.
std::string gpu_fault(int device_number);

}  // namespace qrl::learner
