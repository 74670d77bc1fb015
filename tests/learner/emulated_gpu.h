// Owns a device of LibTorch's that is host memory, for what a learner tells a GPU: how much it launches, what it waits
// for. Knows no learner.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "learner/torch.h"

namespace qrl::test {

/// What the device was told since the counts were last taken.
struct GpuCounts {
  std::int64_t launches = 0;                    ///< kernels, ours and LibTorch's, copies and fills
  std::int64_t waits = 0;                       ///< of the host for the device
  std::map<std::string, std::int64_t> by_name;  ///< launches; and waits, behind "wait: "
};

/// The device. LibTorch's operations on its tensors are the CPU's, each counted as the launches that CUDA's form of it
/// takes; memory that nobody has written is NaN. A copy between host and device waits for the device, and counts so,
/// unless it is asynchronous and the host's memory pinned. Then what goes to the host comes there no earlier than it is
/// waited for, and is NaN before. Kernels of cuda/ are counted where they are emulated. FlashAttention, which LibTorch
/// has for GPUs alone, is computed in fp32.
torch::Device emulated_gpu();
GpuCounts take_counts();

}  // namespace qrl::test
