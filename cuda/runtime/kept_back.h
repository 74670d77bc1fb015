// Owns how much device memory KV pages leave free. Knows nothing of devices.
#pragma once

#include <cstddef>

namespace qrl::cuda {

/// Bytes that stay free when KV pages take the rest of the memory: cuBLASLt's kernels alone take 100 to 300 MiB.
inline constexpr std::size_t kKeptBackBytes = std::size_t{512} << 20;

}  // namespace qrl::cuda
