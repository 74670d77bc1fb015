// Owns how LibTorch's CUDA part joins a program that is linked without it, so that one program runs with and without a
// GPU. Knows no tensor.
#pragma once

#include <string>

#include "config/recipe.h"
#include "dist/collectives.h"

namespace qrl::learner {

/// Loads libtorch_cuda.so (libraries.h says from where), which enters its operations in LibTorch's dispatcher; sets
/// LibTorch's operations to those that give the same bits each time. Any number of calls, from one thread, the first
/// before any engine of cuda/ is made: the cuBLASLt that comes first into a process is everybody's. Its path and
/// version are logged. An input error where the library, something it needs, a driver or a GPU is missing. Makes device
/// `number` of those that CUDA_VISIBLE_DEVICES leaves, counted round-robin, the one in use, and returns which it
/// is.
int load_cuda_library(int number);

/// Measures the operations per second of LibTorch's matmul of two 8192 × 8192 matrices, the best of several runs. This
/// bounds a learner's speed there. Requires load_cuda_library, whose GPU it uses.
double measure_gpu_matmul_flops_per_s(config::ComputeDType dtype);

/// Returns the bytes of a GPU's memory that LibTorch's tensors have now.
std::int64_t gpu_bytes_in_tensors(int device_number);
/// Returns the bytes that they may take besides, before the GPU's memory is as full as a plan fills it.
std::int64_t gpu_bytes_left(int device_number);

/// The share of a GPU's memory that a plan fills (train/gpu_plan.h). CUDA's context, its libraries' kernels and gaps
/// between allocations take the rest, and an estimate may be 10 percent low.
inline constexpr double kPlannedGpuShare = 0.85;

/// Bytes of memory that a GPU has in all.
double gpu_bytes(int device_number);
/// Returns the least GPU memory of a rank of `world`, in bytes. Ranks that share a GPU have equal parts of it.
/// device_number: this rank's. Collective.
double smallest_gpu_share(int device_number, dist::Collectives& world);
/// Does the same for a rank whose GPU is named and has that much memory.
double smallest_gpu_share(const std::string& gpu, std::size_t gpu_bytes, dist::Collectives& world);

/// Returns whether ranks of `world` share a GPU. device_number: this rank's. Collective.
bool share_gpus(int device_number, dist::Collectives& world);
/// Throws an input error if ranks with separate GPUs lack NCCL, by which they communicate. Collective.
void require_nccl(dist::Collectives& world);

/// Returns why GPU `device_number` cannot be used: "expected …, got …; …"; empty if it can.
std::string gpu_fault(int device_number);

}  // namespace qrl::learner
