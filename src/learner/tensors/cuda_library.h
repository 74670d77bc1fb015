// Owns loading LibTorch's CUDA part at run time, because the program also runs without a GPU.
#pragma once

#include <string>

#include "config/words.h"
#include "dist/collectives.h"

namespace qrl::learner {

/// Loads libtorch_cuda.so (path: libraries.h), logs its path and version, and selects deterministic operations. Selects
/// device `number`, round-robin over CUDA_VISIBLE_DEVICES, and returns the device's number. Call it on one thread,
/// before making any engine of cuda/. Throws an input error if the library, its dependencies, a driver or a GPU is
/// missing.
int load_cuda_library(int number);

/// Measures the operations per second of LibTorch's matmul of two 8192 × 8192 matrices, a bound of a learner's speed.
double measure_gpu_matmul_flops_per_s(config::ComputeDType dtype);

std::int64_t gpu_bytes_in_tensors(int device_number);
/// Returns the bytes that further tensors may use within kPlannedGpuShare.
std::int64_t gpu_bytes_left(int device_number);

/// The share of a GPU's memory that a plan may use (train/plan/gpu_plan.h). CUDA's context, kernels, fragmentation and
/// errors of the estimate take the rest.
inline constexpr double kPlannedGpuShare = 0.85;

double gpu_bytes(int device_number);
/// Returns the smallest GPU memory of any rank of `world`, in bytes. Ranks on one GPU share it equally. device_number:
/// this rank's. Collective.
double smallest_gpu_share(int device_number, dist::Collectives& world);
/// Returns smallest_gpu_share for a rank whose GPU has the unique name `gpu` and `gpu_bytes` of memory, without a
/// driver.
double smallest_gpu_share(const std::string& gpu, std::size_t gpu_bytes, dist::Collectives& world);

/// Returns whether ranks share a GPU. device_number: this rank's. Collective.
bool share_gpus(int device_number, dist::Collectives& world);
/// Throws an input error if ranks with separate GPUs lack NCCL. Collective.
void require_nccl(dist::Collectives& world);

/// Returns why GPU `device_number` cannot be used, as "expected …, got …; …"; empty if it can.
std::string gpu_fault(int device_number);

}  // namespace qrl::learner
