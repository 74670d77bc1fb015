// Owns the interface between a launcher's environment and the ways to join its job: mpi.cpp and local_ranks.cpp.
#pragma once

#include <memory>
#include <string>

#include "dist/collectives.h"

namespace qrl::dist {

/// The environment variable of Launch::join_limit_s: no recipe is read before the job starts.
inline constexpr const char* kJoinLimit = "QRL_JOIN_TIMEOUT_S";

struct Launch {
  std::string variable;       ///< the environment variable that was found; empty: not started by a launcher
  int num_ranks = 1;          ///< 0: several, a number that only MPI knows
  double join_limit_s = 600;  ///< wait for the other processes to start, in seconds (kJoinLimit, 1 or more)
};

/// Reads kJoinLimit and the environment of Open MPI, MPICH and Intel MPI, PMIx, and Slurm. Throws an input error for
/// values that are no numbers.
Launch find_launch();

/// Joins the job of several ranks that `launch` describes, by MPI. Throws like make_world.
std::unique_ptr<Collectives> join_launched(const Launch& launch, int* argc, char*** argv);

/// Joins the job of start_ranks; null in a process that it did not start.
std::unique_ptr<Collectives> join_local(const Launch& launch);

}  // namespace qrl::dist
