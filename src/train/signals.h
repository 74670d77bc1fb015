// Owns the process's wish to stop. The first SIGTERM, SIGINT or SIGUSR1 asks for a checkpoint and exit 75 as soon as a
// state to keep is reached; a second one exits at once. (SIGUSR1, because mpirun forwards it to its ranks, while on
// SIGTERM it kills them a second later.)
#pragma once

namespace qrl::train {

void install_signal_handlers();
bool stop_requested();

/// Thrown out of generation by the sampler once a stop is requested.
struct Abandoned {};

}  // namespace qrl::train
