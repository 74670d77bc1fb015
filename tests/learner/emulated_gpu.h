// Owns a LibTorch device in host memory that counts a learner's launches and waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "learner/tensors/torch.h"

namespace qrl::test {

/// Counts the device's work since the counts were last taken.
struct GpuCounts {
  std::int64_t launches = 0;                    ///< own and LibTorch's kernels, copies and fills
  std::int64_t waits = 0;                       ///< times the host waited for the device
  std::map<std::string, std::int64_t> by_name;  ///< launches; and waits, with the prefix "wait: "
};

/// Returns the device. The CPU runs LibTorch's operations on its tensors, each counted as the launches of CUDA's form;
/// unwritten memory is NaN. A copy between host and device counts as a wait, unless it is asynchronous and the host's
/// memory is pinned. An asynchronous copy to the host arrives only when it is waited for, and is NaN before. Kernels of
/// cuda/ are counted where they are emulated. FlashAttention, which LibTorch has only for GPUs, is computed in fp32.
torch::Device emulated_gpu();
GpuCounts take_counts();

}  // namespace qrl::test
