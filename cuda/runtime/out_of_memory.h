#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"

namespace qrl::cuda {

inline std::string mib_text(std::size_t bytes) {
  constexpr std::size_t kMib = std::size_t{1} << 20;
  return std::to_string((bytes + kMib - 1) / kMib) + " MiB";
}

/// A failed allocation. Callers that know the memory's purpose rethrow it with `explain`.
class OutOfMemory final : public base::Error {
 public:
  /// `place` names the memory: "NVIDIA H200, device 0", or the host's pinned memory. `free`: bytes of it that are free.
  OutOfMemory(std::size_t wanted, const std::string& place, std::size_t free)
      : OutOfMemory(wanted, place, mib_text(free) + " free") {}
  OutOfMemory(std::size_t wanted, const std::string& place, const std::string& free)
      : Error(base::ErrorKind::input, "rollout.device: cuda", mib_text(wanted) + " of memory on " + place, free,
              "lower rollout.gpu_memory_utilization, or stop other programs that use it"),
        wanted_(mib_text(wanted) + " more on " + place),
        free_(free) {}
  /// Throws an input error that names the recipe key, the memory's purpose ("the weights") and what to do.
  [[noreturn]] void explain(const std::string& key, const std::string& what, const std::string& what_to_do) const {
    base::fail_input(key, "memory for " + what + ", " + wanted_, free_, what_to_do);
  }

 private:
  std::string wanted_, free_;
};

struct MemoryUse {
  const char* key;
  const char* what;
  const char* what_to_do;
};

/// Returns work(). Rethrows OutOfMemory as the input error that explain(`use`) throws.
template <class Work>
decltype(auto) with_memory(const MemoryUse& use, const Work& work) {
  try {
    return work();
  } catch (const OutOfMemory& error) {
    error.explain(use.key, use.what, use.what_to_do);
  }
}

}  // namespace qrl::cuda
