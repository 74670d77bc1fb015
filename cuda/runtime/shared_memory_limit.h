// Owns which limit of dynamic shared memory each kernel has. Plain host code; knows nothing of CUDA's calls.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

namespace qrl::cuda {

/// A kernel's limit only rises. A graph may hold a launch of the same kernel that needs more than the next one, and
/// CUDA does not say whether such a graph still launches when the limit was lowered after it was recorded. A kernel
/// whose limit suffices also costs no driver call.
class SharedMemoryLimits {
 public:
  /// What every kernel may use without a request.
  static constexpr std::size_t kDefaultBytes = std::size_t{48} << 10;

  /// Calls prepare() at the kernel's first launch, then raise(num_bytes) if the kernel needs more than it ever had. Any
  /// thread may call it: a limit that one thread raises is in force before another thread finds it sufficient. An
  /// exception of either callback is passed on and leaves the limit as before.
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
