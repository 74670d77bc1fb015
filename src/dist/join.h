// Owns the seam between a launcher's environment and the MPI or no-MPI part that the build links (mpi.cpp, no_mpi.cpp).
#pragma once

#include <memory>
#include <string>

#include "dist/collectives.h"

namespace qrl::dist {

/// The environment variable of Launch::join_limit_s: no recipe is read yet when ranks meet.
inline constexpr const char* kJoinLimit = "QRL_JOIN_TIMEOUT_S";

/// What a launcher says about the job this process belongs to.
struct Launch {
  std::string variable;       ///< the environment variable that told; empty: not started by a launcher
  int num_ranks = 1;          ///< 0: several, how many only MPI knows
  double join_limit_s = 600;  ///< how long this process waits for the others to start; kJoinLimit, 1 or more
};

/// Reads the environment of Open MPI, MPICH and Intel MPI, PMIx and Slurm, and kJoinLimit. Throws an input error when a
/// number is none.
Launch find_launch();

/// Joins the job of several ranks that `launch` speaks of. Throws as make_world does.
std::unique_ptr<Collectives> join_job(const Launch& launch, int* argc, char*** argv);

}  // namespace qrl::dist
