// Owns loading LibTorch's CUDA part into a program that is linked without it and runs with and without a GPU.
#pragma once

#include <string>

#include "config/words.h"
#include "dist/collectives.h"

namespace qrl::learner {

/// Loads libtorch_cuda.so (libraries.h says from where), logs its path and version, and selects operations that give
/// the same bits each time. One thread calls it, repeatedly if needed, before any engine of cuda/ is made: all use the
/// cuBLASLt that is loaded first. Throws an input error if the library, its dependencies, a driver or a GPU is missing.
/// Selects device `number`, counted round-robin over CUDA_VISIBLE_DEVICES, and returns its number.
int load_cuda_library(int number);

/// Measures the operations per second of LibTorch's matmul of two 8192 × 8192 matrices, the best of several runs: a
/// bound of a learner's speed. Uses load_cuda_library's GPU.
double measure_gpu_matmul_flops_per_s(config::ComputeDType dtype);

/// Returns the bytes of LibTorch's tensors on a GPU now.
std::int64_t gpu_bytes_in_tensors(int device_number);
/// Returns the bytes that tensors may still take within kPlannedGpuShare.
std::int64_t gpu_bytes_left(int device_number);

/// The share of a GPU's memory that a plan fills (train/plan/gpu_plan.h). The rest is for CUDA's context, kernels, gaps
/// between allocations, and estimates up to 10 percent low.
inline constexpr double kPlannedGpuShare = 0.85;

double gpu_bytes(int device_number);
/// Returns the least GPU memory of a rank of `world`, in bytes. Ranks on one GPU share it equally. device_number: this
/// rank's. Collective.
double smallest_gpu_share(int device_number, dist::Collectives& world);
/// Does the same for a rank with a named GPU of `gpu_bytes`.
double smallest_gpu_share(const std::string& gpu, std::size_t gpu_bytes, dist::Collectives& world);

/// Returns whether ranks share a GPU. device_number: this rank's. Collective.
bool share_gpus(int device_number, dist::Collectives& world);
/// Throws an input error if ranks with separate GPUs lack NCCL. Collective.
void require_nccl(dist::Collectives& world);

/// Returns why GPU `device_number` cannot be used: "expected …, got …; …"; empty if it can.
std::string gpu_fault(int device_number);

}  // namespace qrl::learner
