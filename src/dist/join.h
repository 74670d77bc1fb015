#pragma once

#include <memory>
#include <string>

#include "dist/collectives.h"

namespace qrl::dist {

/// Names the environment variable of Launch::join_limit_s. Recipes are read after joining, so no recipe key can set it.
inline constexpr const char* kJoinLimit = "QRL_JOIN_TIMEOUT_S";

struct Launch {
  std::string variable;       ///< the launcher's; empty: no launcher
  int num_ranks = 1;          ///< 0: several; only MPI knows
  double join_limit_s = 600;  ///< limit of waiting for other processes to start (kJoinLimit, at least 1)
};

/// Reads kJoinLimit and the variables of Open MPI, MPICH, Intel MPI, PMIx and Slurm. Throws an input error for values
/// that are no numbers.
Launch find_launch();

/// Joins the job of several ranks that `launch` describes, by MPI. Throws like make_world.
std::unique_ptr<Collectives> join_launched(const Launch& launch, int* argc, char*** argv);

/// Joins the job of start_ranks; null in a process that it did not start.
std::unique_ptr<Collectives> join_local(const Launch& launch);

}  // namespace qrl::dist
