#pragma once

#include <spawn.h>

namespace qrl::base {

/// Owns the arguments of a posix_spawn whose process gets a session of its own, default signals and an empty mask. A
/// signal to the run's group then does not end it.
struct SpawnPlan {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnPlan();
  ~SpawnPlan();
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

}  // namespace qrl::base
