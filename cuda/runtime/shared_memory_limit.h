// Owns each kernel's limit of dynamic shared memory. Plain host code. Knows nothing of CUDA's calls.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

namespace qrl::cuda {

/// Raises the limits of kernels and never lowers them. A graph may hold a launch of the same kernel that needs more
/// than the next. CUDA does not specify whether the graph still launches if the limit was lowered after its capture.
/// Besides, a sufficient limit costs no driver call.
class SharedMemoryLimits {
 public:
  /// The bytes that every kernel may use by default.
  static constexpr std::size_t kDefaultBytes = std::size_t{48} << 10;

  /// Calls prepare() at the kernel's first launch, then raise(num_bytes) if the kernel needs more than ever before. Any
  /// thread may call it. A raised limit is in force before another thread finds it sufficient. Rethrows an exception of
  /// a callback, and leaves the limit as before.
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
