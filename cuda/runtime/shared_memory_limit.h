#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

namespace qrl::cuda {

/// Raises kernels' limits of dynamic shared memory and never lowers them: CUDA does not specify whether a graph runs
/// under a limit lowered after its capture.
class SharedMemoryLimits {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{48} << 10;

  /// Calls prepare() at the kernel's first launch, and raise(num_bytes) if num_bytes exceeds the kernel's limit. Any
  /// thread may call it. If a callback throws, rethrows and keeps the old limit.
  template <class Prepare, class Raise>
  void require(const void* kernel, std::size_t num_bytes, const Prepare& prepare, const Raise& raise) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [found, is_new] = limits_.try_emplace(kernel, 0);
    if (found->second == 0) {
      prepare();
      found->second = kDefaultBytes;
    }
    if (num_bytes <= found->second) return;
    raise(num_bytes);
    found->second = num_bytes;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::size_t> limits_;
};

}  // namespace qrl::cuda
