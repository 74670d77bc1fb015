#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace qrl::base {

/// Returns the process's CPU quota in processors (1.5 for 150 ms of each 100): the least of its control group's (a
/// container's; version 1 or 2) and the ancestors', if any. `root` has /proc and the paths named in it.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Returns the lowest memory limit of these groups, if any.
std::optional<std::uint64_t> memory_limit_bytes(const std::filesystem::path& root = "/");

}  // namespace qrl::base
