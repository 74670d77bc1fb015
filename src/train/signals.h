// Owns the process's wish to stop. The first SIGTERM, SIGINT or SIGUSR1 asks for a checkpoint and exit 75 at the end of
// the step; a second one exits at once. (SIGUSR1, because mpirun forwards it to its ranks, while on SIGTERM it kills
// them a second later.)
#pragma once

namespace qrl::train {

void install_signal_handlers();
bool stop_requested();

}  // namespace qrl::train
