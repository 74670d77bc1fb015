// Owns the seam between a launcher's environment and the MPI or no-MPI part that the build links (mpi.cpp, no_mpi.cpp).
#pragma once

#include <memory>
#include <string>

#include "dist/collectives.h"

namespace qrl::dist {

/// What a launcher says about the job this process belongs to.
struct Launch {
  std::string variable;  ///< the environment variable that told; empty: not started by a launcher
  int num_ranks = 1;     ///< 0: several, how many only MPI knows
};

/// Reads the environment of Open MPI, MPICH and Intel MPI, PMIx and Slurm. Throws an input error when the number is
/// none.
Launch find_launch();

/// Joins the job of several ranks that `launch` speaks of. Throws as make_world does.
std::unique_ptr<Collectives> join_job(const Launch& launch, int* argc, char*** argv);

}  // namespace qrl::dist
