// Owns the CPU and memory limits of this process's control groups (a container's limits), versions 1 and 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace qrl::base {

/// Returns the CPU quota of the process in processors (1.5 for 150 ms of each 100): the minimum over its control group
/// and the ancestors. Returns nothing without a quota. `root` is the folder that has /proc and the paths named in it.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Returns the lowest memory limit of the process's control group and its ancestors; nothing without a limit.
std::optional<std::uint64_t> memory_limit_bytes(const std::filesystem::path& root = "/");

}  // namespace qrl::base
