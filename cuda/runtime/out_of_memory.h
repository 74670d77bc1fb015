// Owns the error of a device that has no memory left: it names the device, the memory that was requested and what to
// lower. Knows nothing of the callers.
#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"

namespace qrl::cuda {

inline std::string mib_text(std::size_t bytes) {
  constexpr std::size_t kMib = std::size_t{1} << 20;
  return std::to_string((bytes + kMib - 1) / kMib) + " MiB";
}

/// Thrown where memory is allocated. Code that knows its purpose passes it on by explain.
class OutOfMemory final : public base::Error {
 public:
  /// `place`: "NVIDIA H200, device 0", or the host's pinned memory, of which `free` bytes are left.
  OutOfMemory(std::size_t wanted, const std::string& place, std::size_t free)
      : OutOfMemory(wanted, place, mib_text(free) + " free") {}
  OutOfMemory(std::size_t wanted, const std::string& place, const std::string& free)
      : Error(base::ErrorKind::input, "rollout.device: cuda", mib_text(wanted) + " of memory on " + place, free,
              "lower rollout.gpu_memory_utilization, or end what else uses it"),
        wanted_(mib_text(wanted) + " more on " + place),
        free_(free) {}
  /// `key`: of the recipe; `what`: "the weights".
  [[noreturn]] void explain(const std::string& key, const std::string& what, const std::string& what_to_do) const {
    base::fail_input(key, "memory for " + what + ", " + wanted_, free_, what_to_do);
  }

 private:
  std::string wanted_, free_;
};

/// The purpose of some memory, and how to need less of it or to free more.
struct MemoryUse {
  const char* key;
  const char* what;
  const char* what_to_do;
};

/// Calls work(). OutOfMemory becomes an input error that names `use`.
template <class Work>
decltype(auto) with_memory(const MemoryUse& use, const Work& work) {
  try {
    return work();
  } catch (const OutOfMemory& error) {
    error.explain(use.key, use.what, use.what_to_do);
  }
}

}  // namespace qrl::cuda
