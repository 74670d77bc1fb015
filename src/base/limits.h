#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace qrl::base {

/// Returns the CPU quota in processors, such as 1.5 for 150 ms of CPU time in each 100 ms. It is the lowest quota of
/// the process's control group (version 1 or 2) and its ancestors. Returns nothing without a quota. Reads /proc and
/// mounts below `root`.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Returns the lowest memory limit of the same control groups, if any.
std::optional<std::uint64_t> memory_limit_bytes(const std::filesystem::path& root = "/");

/// Returns the number of processors that this process may run on, limited to the CPU quota (rounded up). Returns at
/// least 1.
int usable_processors();

struct MemoryLimit {
  std::uint64_t bytes = 0;       ///< the limit; 0: unknown
  std::string what;              ///< "this machine's memory", or "the memory limit of this process's control group"
  std::uint64_t free_bytes = 0;  ///< memory not in use (MemAvailable), at most `bytes`
};

MemoryLimit memory_limit();

}  // namespace qrl::base
