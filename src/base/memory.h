#pragma once

#include <cstdint>
#include <string>

namespace qrl::base {

struct MemoryLimit {
  std::uint64_t bytes = 0;       ///< the limit; 0: unknown
  std::string what;              ///< "this machine's memory", "the memory limit of the control group"
  std::uint64_t free_bytes = 0;  ///< not in use now (MemAvailable), at most `bytes`
};

/// Returns the lower of the machine's memory and the control group's limit.
MemoryLimit memory_limit();

}  // namespace qrl::base
