// Owns what the control groups of this process allow it: a container's limits, by version 1 or 2. Knows nothing of what
// the machine has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace qrl::base {

/// Gives the processors that the CPU quota of the process is worth: 1.5 for 150 ms of each 100. The least of its
/// control group and those above it; nothing without a quota. `root`: where /proc and the paths in it are taken from.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Gives the most memory that the process's control group and those above it allow; nothing without a limit.
std::optional<std::uint64_t> memory_limit_bytes(const std::filesystem::path& root = "/");

}  // namespace qrl::base
