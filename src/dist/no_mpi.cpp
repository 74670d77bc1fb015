// Replaces mpi.cpp in a build without MPI.
#include <cstdlib>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/join.h"

namespace qrl::dist {

std::unique_ptr<Collectives> join_job(const Launch& launch, int*, char***) {
  base::fail_input("environment variable " + launch.variable, "one process: this build has no MPI",
                   launch.num_ranks > 0 ? std::to_string(launch.num_ranks) + " processes" : "several processes",
                   "install libopenmpi-dev and build again with -DQRL_MPI=on, or start qrl-train without mpirun");
}

void abort_job(int exit_code) { std::_Exit(exit_code); }

std::string mpi_version() { return "off"; }

}  // namespace qrl::dist
