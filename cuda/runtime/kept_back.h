#pragma once

#include <cstddef>

namespace qrl::cuda {

/// Device memory that KV pages leave free for libraries: cuBLASLt's kernels alone take 100 to 300 MiB.
inline constexpr std::size_t kKeptBackBytes = std::size_t{512} << 20;
/// Device memory that KV pages leave free for CUDA graphs, which take no more.
inline constexpr std::size_t kGraphBytes = std::size_t{256} << 20;

}  // namespace qrl::cuda
