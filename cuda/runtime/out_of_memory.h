// Owns what it means that a device has no memory left: an error that names the device, what was asked of it and what to
// lower. Knows nothing of who asks.
#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"

namespace qrl::cuda {

inline std::string mib_text(std::size_t bytes) {
  constexpr std::size_t kMib = std::size_t{1} << 20;
  return std::to_string((bytes + kMib - 1) / kMib) + " MiB";
}

/// Thrown by who makes memory. Whoever knows what it was for throws it on by explain.
class OutOfMemory final : public base::Error {
 public:
  /// `place`: "NVIDIA H200, device 0", or the host's pinned memory, of which `free` bytes are left.
  OutOfMemory(std::size_t asked, const std::string& place, std::size_t free)
      : OutOfMemory(asked, place, mib_text(free) + " free") {}
  OutOfMemory(std::size_t asked, const std::string& place, const std::string& free)
      : Error(base::ErrorKind::input, "rollout.device: cuda", mib_text(asked) + " of memory on " + place, free,
              "lower rollout.gpu_memory_utilization, or end what else uses it"),
        asked_(mib_text(asked) + " more on " + place),
        free_(free) {}
  /// `key`: of the recipe; `what`: "the weights".
  [[noreturn]] void explain(const std::string& key, const std::string& what, const std::string& what_to_do) const {
    base::fail_input(key, "memory for " + what + ", " + asked_, free_, what_to_do);
  }

 private:
  std::string asked_, free_;
};

/// What some work wants memory for, and what makes it want less or leaves it more.
struct MemoryUse {
  const char* key;
  const char* what;
  const char* what_to_do;
};

/// work(), with a lack of memory explained.
template <class Work>
decltype(auto) with_memory(const MemoryUse& use, const Work& work) {
  try {
    return work();
  } catch (const OutOfMemory& error) {
    error.explain(use.key, use.what, use.what_to_do);
  }
}

}  // namespace qrl::cuda
